import { oneOf, type Search, texts } from "@/app/urlState";

/** What the keys keep in the address. */
export function keysSearch(search: Search) {
  const tab = oneOf(search, "tab", ["keys", "teams"]);
  return { ...texts(search, ["name", "team", "revoked", "sort"]), ...(tab === "keys" ? {} : { tab }) };
}
