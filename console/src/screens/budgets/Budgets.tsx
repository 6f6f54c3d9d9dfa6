import { getRouteApi } from "@tanstack/react-router";
import { Screen } from "@/components/Screen";
import { Tabs } from "@/components/Tabs";
import { AlertList } from "./AlertList";
import { Rules } from "./Rules";

const route = getRouteApi("/budgets");

const TABS = [
  { value: "rules", label: "Rules" },
  { value: "alerts", label: "Alerts" },
] as const;

/** What requests may spend, and who is told. */
export function Budgets() {
  const { tab = "rules" } = route.useSearch();
  const navigate = route.useNavigate();
  return (
    <Screen
      title="Budgets and alerts"
      lead="Rules limit what requests spend, over keys and teams. Alerts tell people when a limit is near or reached."
    >
      <Tabs
        label="Budgets and alerts"
        tabs={TABS}
        value={tab}
        onChange={(next) => navigate({ search: next === "rules" ? {} : { tab: next }, replace: true })}
      >
        {tab === "alerts" ? <AlertList /> : <Rules />}
      </Tabs>
    </Screen>
  );
}
