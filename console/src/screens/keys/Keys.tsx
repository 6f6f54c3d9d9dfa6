import { getRouteApi } from "@tanstack/react-router";
import { useRight } from "@/api/session";
import { Screen } from "@/components/Screen";
import { Tabs } from "@/components/Tabs";
import { CreateKey } from "./CreateKey";
import { CreateTeam } from "./CreateTeam";
import { KeyTable } from "./KeyTable";
import { TeamTable } from "./TeamTable";

const route = getRouteApi("/keys");

const TABS = [
  { value: "keys", label: "Keys" },
  { value: "teams", label: "Teams" },
] as const;

/** All keys and teams, what they may do and what they have spent. */
export function Keys() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const mayChange = useRight("operate");
  const tab = search.tab ?? "keys";
  return (
    <Screen
      title="Keys and teams"
      lead="A key is for one program or person. A team's limits hold above those of its keys."
      actions={mayChange ? tab === "keys" ? <CreateKey /> : <CreateTeam /> : null}
    >
      <Tabs
        label="Keys or teams"
        tabs={TABS}
        value={tab}
        onChange={(next) => navigate({ search: { tab: next } })}
      >
        {tab === "keys" ? <KeyTable /> : <TeamTable />}
      </Tabs>
    </Screen>
  );
}
