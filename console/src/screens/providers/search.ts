import { oneOf, type Search, texts } from "@/app/urlState";

/** What the providers keep in the address. */
export interface ProvidersSearch {
  tab?: "health" | "explain" | undefined;
  model?: string | undefined;
  key?: string | undefined;
  strategy?: string | undefined;
  sort?: string | undefined;
}

export function providersSearch(search: Search): ProvidersSearch {
  const tab = oneOf(search, "tab", ["health", "explain"]);
  return { ...texts(search, ["model", "key", "strategy", "sort"]), ...(tab === "health" ? {} : { tab }) };
}
