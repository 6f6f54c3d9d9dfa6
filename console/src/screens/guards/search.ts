import { oneOf, type Search, texts } from "@/app/urlState";

export interface GuardsSearch {
  tab?: "sessions" | "guards" | undefined;
  session?: string | undefined;
  since?: string | undefined;
  until?: string | undefined;
  sort?: string | undefined;
}

/** What the guards and the sessions keep in the address. */
export function guardsSearch(search: Search): GuardsSearch {
  const tab = oneOf(search, "tab", ["sessions", "guards"]);
  return { ...texts(search, ["session", "since", "until", "sort"]), ...(tab === "sessions" ? {} : { tab }) };
}
