import { getRouteApi } from "@tanstack/react-router";
import { Screen, Section } from "@/components/Screen";
import { Tabs } from "@/components/Tabs";
import { GuardList } from "./GuardList";
import { OneSession } from "./OneSession";
import { Sessions } from "./Sessions";
import type { GuardsSearch } from "./search";

const route = getRouteApi("/guards");

const TABS = [
  { value: "sessions", label: "Sessions" },
  { value: "guards", label: "Guards" },
] as const;

/** The runs of agents, and what stops them. */
export function Guards() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const change = (next: Partial<GuardsSearch>) =>
    navigate({ search: (now) => ({ ...now, ...next }), replace: true, resetScroll: false });
  const tab = search.tab ?? "sessions";
  return (
    <Screen
      title="Guards and sessions"
      lead="A session is one run of an agent. A guard stops it, or warns, when it calls too often, costs too much, lasts too long or repeats itself."
    >
      <Tabs
        label="Guards and sessions"
        tabs={TABS}
        value={tab}
        onChange={(next) => change({ tab: next === "sessions" ? undefined : next, session: undefined })}
      >
        {tab === "guards" ? (
          <GuardList />
        ) : search.session ? (
          <Section title={`Session ${search.session}`}>
            <OneSession session={search.session} />
          </Section>
        ) : (
          <Sessions search={search} onChange={change} />
        )}
      </Tabs>
    </Screen>
  );
}
