import { oneOf, type Search, texts } from "@/app/urlState";

/** What the keys keep in the address. */
export interface KeysSearch {
  tab?: "keys" | "teams" | undefined;
  name?: string | undefined;
  team?: string | undefined;
  revoked?: string | undefined;
  sort?: string | undefined;
}

export function keysSearch(search: Search): KeysSearch {
  const tab = oneOf(search, "tab", ["keys", "teams"]);
  return { ...texts(search, ["name", "team", "revoked", "sort"]), ...(tab === "keys" ? {} : { tab }) };
}
