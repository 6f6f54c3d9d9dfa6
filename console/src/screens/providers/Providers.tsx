import { getRouteApi } from "@tanstack/react-router";
import { Screen } from "@/components/Screen";
import { Tabs } from "@/components/Tabs";
import { Drill } from "./Drill";
import { Explain } from "./Explain";
import { Health } from "./Health";
import { Presets } from "./Presets";
import { Probe } from "./Probe";

const route = getRouteApi("/providers");

const TABS = [
  { value: "health", label: "Health" },
  { value: "explain", label: "Explain a route" },
  { value: "presets", label: "Presets" },
  { value: "drill", label: "Drill" },
  { value: "probe", label: "Probe" },
] as const;

const PAGES = { health: Health, explain: Explain, presets: Presets, drill: Drill, probe: Probe } as const;

/** How the providers do, and where requests go. */
export function Providers() {
  const { tab = "health" } = route.useSearch();
  const navigate = route.useNavigate();
  const Page = PAGES[tab];
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
        <Page />
      </Tabs>
    </Screen>
  );
}
