import { oneOf, type Search, texts } from "@/app/urlState";

export const GROUPINGS = [
  "model",
  "provider",
  "key",
  "team",
  "surface",
  "end_user",
  "tag",
  "repository",
  "branch",
  "pull_request",
] as const;
export type Grouping = (typeof GROUPINGS)[number];

/** What the overview keeps in the address. */
export interface OverviewSearch {
  since?: string | undefined;
  until?: string | undefined;
  by?: Grouping | undefined;
  compare?: "true" | undefined;
  view?: "chart" | "table" | undefined;
  sort?: string | undefined;
}

export function overviewSearch(search: Search): OverviewSearch {
  const by = oneOf(search, "by", GROUPINGS);
  const view = oneOf(search, "view", ["chart", "table"]);
  return {
    ...texts(search, ["since", "until", "sort"]),
    ...(search.compare === "true" ? { compare: "true" as const } : {}),
    ...(by === "model" ? {} : { by }),
    ...(view === "chart" ? {} : { view }),
  };
}
