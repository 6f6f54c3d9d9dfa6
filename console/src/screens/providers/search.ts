import { oneOf, type Search, texts } from "@/app/urlState";

/** What the providers keep in the address. */
export function providersSearch(search: Search) {
  const tab = oneOf(search, "tab", ["health", "explain"]);
  return { ...texts(search, ["model", "key", "strategy", "sort"]), ...(tab === "health" ? {} : { tab }) };
}
