import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { api, type Schemas } from "@/api/client";
import { useRight } from "@/api/session";
import { Button } from "@/components/Button";
import { Confirm } from "@/components/Confirm";
import { Loaded } from "@/components/Loaded";
import { Screen, Section } from "@/components/Screen";
import { count } from "@/format/numbers";
import { BudgetBar } from "./Budget";
import { limitsBody, limitsForm } from "./form";
import { Limits } from "./KeyPage";
import { useDeleteTeam, usePutTeam } from "./mutations";
import { TeamFormDialog } from "./TeamFormDialog";

const route = getRouteApi("/teams/$teamId");

/** One team: its limits, and the way to its keys. */
export function TeamPage() {
  const { teamId } = route.useParams();
  const team = api.useQuery("get", "/admin/v1/teams/{team_id}", { params: { path: { team_id: teamId } } });
  const mayChange = useRight("operate");
  return (
    <Screen
      title={`Team ${teamId}`}
      lead={
        <Link to="/keys" search={{ tab: "teams" }} className="link">
          All teams
        </Link>
      }
      actions={team.data && mayChange ? <TeamActions team={team.data} /> : null}
    >
      <Loaded query={team} what="the team">
        {(data) => (
          <>
            <Section title="Budget and limits">
              <div className="card flex flex-col gap-4 p-4">
                <BudgetBar owner={data.id} of={data} />
                <Limits of={data} />
              </div>
            </Section>
            <p className="flex flex-wrap gap-4">
              <Link to="/keys" search={{ team: data.id }} className="link">
                Its keys ({count(data.keys)})
              </Link>
              <Link to="/requests" search={{ team: data.id }} className="link">
                Its requests
              </Link>
            </p>
          </>
        )}
      </Loaded>
    </Screen>
  );
}

function TeamActions({ team }: { team: Schemas["Team"] }) {
  const [isOpen, setOpen] = useState(false);
  const put = usePutTeam();
  const remove = useDeleteTeam(team.id);
  const navigate = useNavigate();
  async function confirmed() {
    await remove.mutateAsync();
    await navigate({ to: "/keys", search: { tab: "teams" } });
  }
  return (
    <>
      <Button onClick={() => setOpen(true)}>Edit</Button>
      <Confirm action="Delete" question={`Delete the team ${team.id}?`} onConfirm={confirmed}>
        A team can be deleted when each of its keys is revoked or has left it.
      </Confirm>
      {isOpen ? (
        <TeamFormDialog
          title={`Edit ${team.id}`}
          action="Save"
          id={team.id}
          initial={limitsForm(team)}
          isBusy={put.isPending}
          error={put.error}
          onSubmit={(id, form) =>
            put.mutate({ id, limits: limitsBody(form) }, { onSuccess: () => setOpen(false) })
          }
          onClose={() => setOpen(false)}
        />
      ) : null}
    </>
  );
}
