import { getRouteApi } from "@tanstack/react-router";
import { apiUrl } from "@/api/client";
import { buttonClass } from "@/components/Button";
import { Screen } from "@/components/Screen";
import { type Tab, Tabs } from "@/components/Tabs";
import { Entries } from "./Entries";
import { History } from "./History";
import { InForce } from "./InForce";
import { Settings } from "./Settings";
import type { ConfigurationTab } from "./search";

const route = getRouteApi("/configuration");

const TABS: readonly Tab<ConfigurationTab>[] = [
  { value: "aliases", label: "Aliases" },
  { value: "providers", label: "Providers" },
  { value: "models", label: "Models" },
  { value: "budgets", label: "Budgets" },
  { value: "alerts", label: "Alerts" },
  { value: "settings", label: "Settings" },
  { value: "all", label: "In force" },
  { value: "history", label: "History" },
];

/** What is configured, where each value comes from, and what can be changed here. */
export function Configuration() {
  const { tab = "aliases" } = route.useSearch();
  const navigate = route.useNavigate();
  return (
    <Screen
      title="Configuration"
      lead="What the file sets is changed in the file. Everything else is changed here, checked as a whole, and can be undone."
      actions={
        <a className={buttonClass()} href={apiUrl("/admin/v1/config/export")} download="gateway.toml">
          Export as gateway.toml
        </a>
      }
    >
      <Tabs
        label="Parts of the configuration"
        tabs={TABS}
        value={tab}
        onChange={(next) => navigate({ search: { tab: next } })}
      >
        <Part tab={tab} />
      </Tabs>
    </Screen>
  );
}

function Part({ tab }: { tab: ConfigurationTab }) {
  switch (tab) {
    case "settings":
      return <Settings />;
    case "all":
      return <InForce />;
    case "history":
      return <History />;
    default:
      return <Entries section={tab} />;
  }
}
