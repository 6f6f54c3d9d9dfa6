import { oneOf, type Search, texts } from "@/app/urlState";

export const TABS = ["aliases", "providers", "models", "settings", "history"] as const;
export type ConfigurationTab = (typeof TABS)[number];

/** What the configuration keeps in the address. */
export interface ConfigurationSearch {
  tab?: ConfigurationTab | undefined;
  /** The entry that is edited; an empty name is a new one. */
  edit?: string | undefined;
}

export function configurationSearch(search: Search): ConfigurationSearch {
  const tab = oneOf(search, "tab", TABS);
  return { ...texts(search, ["edit"]), ...(tab === "aliases" ? {} : { tab }) };
}
