import { oneOf, type Search, texts } from "@/app/urlState";

export const SECTIONS = ["aliases", "providers", "models", "settings", "history"] as const;
export type ConfigurationTab = (typeof SECTIONS)[number];

/** What the configuration keeps in the address. */
export function configurationSearch(search: Search) {
  const tab = oneOf(search, "tab", SECTIONS);
  return { ...texts(search, ["edit"]), ...(tab === "aliases" ? {} : { tab }) };
}
