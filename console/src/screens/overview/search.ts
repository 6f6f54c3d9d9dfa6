import { oneOf, type Search, texts } from "@/app/urlState";

export const GROUPINGS = ["model", "provider", "key", "team", "surface"] as const;
export type Grouping = (typeof GROUPINGS)[number];

/** What the overview keeps in the address. */
export function overviewSearch(search: Search) {
  const by = oneOf(search, "by", GROUPINGS);
  const view = oneOf(search, "view", ["chart", "table"]);
  return {
    ...texts(search, ["since", "until", "sort", "compare"]),
    ...(by === "model" ? {} : { by }),
    ...(view === "chart" ? {} : { view }),
  };
}

export type OverviewSearch = ReturnType<typeof overviewSearch>;
