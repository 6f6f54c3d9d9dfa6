import { getRouteApi, Link } from "@tanstack/react-router";
import { api, type Schemas } from "@/api/client";
import { Loaded } from "@/components/Loaded";
import { Moment } from "@/components/Moment";
import { Empty } from "@/components/Notice";
import { type Column, DataTable } from "@/components/table/DataTable";
import { count } from "@/format/numbers";
import { BudgetBar } from "./Budget";

type Team = Schemas["Team"];

const route = getRouteApi("/keys");

const COLUMNS: readonly Column<Team>[] = [
  {
    id: "id",
    header: "Name",
    value: (team) => team.id,
    cell: (team) => (
      <Link to="/teams/$teamId" params={{ teamId: team.id }} className="link">
        {team.id}
      </Link>
    ),
  },
  {
    id: "spent",
    header: "Budget",
    value: (team) => team.budget?.spent_usd ?? null,
    cell: (team) => <BudgetBar owner={team.id} of={team} />,
  },
  {
    id: "rpm",
    header: "Requests per minute",
    value: (team) => team.rpm,
    cell: (team) => count(team.rpm),
    isNumber: true,
  },
  {
    id: "tpm",
    header: "Tokens per minute",
    value: (team) => team.tpm,
    cell: (team) => count(team.tpm),
    isNumber: true,
  },
  {
    id: "keys",
    header: "Keys",
    value: (team) => team.keys,
    cell: (team) => count(team.keys),
    isNumber: true,
  },
  {
    id: "created",
    header: "Created",
    value: (team) => team.created_at,
    cell: (team) => <Moment at={team.created_at} />,
  },
];

/** All teams. */
export function TeamTable() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const teams = api.useQuery("get", "/admin/v1/teams");
  return (
    <Loaded query={teams} what="the teams">
      {(page) => (
        <DataTable
          label="Teams"
          columns={COLUMNS}
          rows={page.data}
          rowKey={(team) => team.id}
          sort={search.sort}
          onSort={(sort) =>
            navigate({ search: (now) => ({ ...now, sort }), replace: true, resetScroll: false })
          }
          csvName="teams"
          empty={
            <Empty title="No teams yet.">
              <p>A team has limits and a budget above those of its keys.</p>
            </Empty>
          }
        />
      )}
    </Loaded>
  );
}
