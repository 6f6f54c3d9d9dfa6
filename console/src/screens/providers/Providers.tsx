import { getRouteApi } from "@tanstack/react-router";
import { Screen } from "@/components/Screen";
import { Tabs } from "@/components/Tabs";
import { Explain } from "./Explain";
import { Health } from "./Health";

const route = getRouteApi("/providers");

const TABS = [
  { value: "health", label: "Health" },
  { value: "explain", label: "Explain a route" },
] as const;

/** How the providers do, and where requests go. */
export function Providers() {
  const { tab = "health" } = route.useSearch();
  const navigate = route.useNavigate();
  return (
    <Screen
      title="Providers and routing"
      lead="What the gateway has measured of its upstreams, and how it decides between them."
    >
      <Tabs
        label="Health or routing"
        tabs={TABS}
        value={tab}
        onChange={(next) => navigate({ search: { tab: next } })}
      >
        {tab === "health" ? <Health /> : <Explain />}
      </Tabs>
    </Screen>
  );
}
