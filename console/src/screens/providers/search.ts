import { oneOf, type Search, texts } from "@/app/urlState";

/** What the providers keep in the address. */
export interface ProvidersSearch {
  tab?: "health" | "explain" | "presets" | "drill" | "probe" | undefined;
  model?: string | undefined;
  provider?: string | undefined;
  key?: string | undefined;
  strategy?: string | undefined;
  sort?: string | undefined;
}

export function providersSearch(search: Search): ProvidersSearch {
  const tab = oneOf(search, "tab", ["health", "explain", "presets", "drill", "probe"]);
  return {
    ...texts(search, ["model", "provider", "key", "strategy", "sort"]),
    ...(tab === "health" ? {} : { tab }),
  };
}
