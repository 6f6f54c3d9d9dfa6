import { oneOf, type Search, texts } from "@/app/urlState";

export const TABS = [
  "aliases",
  "providers",
  "models",
  "budgets",
  "alerts",
  "settings",
  "all",
  "history",
] as const;
export type ConfigurationTab = (typeof TABS)[number];

export const TABLES = ["routing", "cache", "timeouts", "responses"] as const;

/** What the configuration keeps in the address. */
export interface ConfigurationSearch {
  tab?: ConfigurationTab | undefined;
  table?: (typeof TABLES)[number] | undefined;
  /** What is edited; "+" is a new entry. */
  edit?: string | undefined;
}

export function configurationSearch(search: Search): ConfigurationSearch {
  const tab = oneOf(search, "tab", TABS);
  const table = oneOf(search, "table", TABLES);
  return {
    ...texts(search, ["edit"]),
    ...(tab === "aliases" ? {} : { tab }),
    ...(table === "routing" ? {} : { table }),
  };
}
