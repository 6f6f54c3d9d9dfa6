import { type Search, texts } from "@/app/urlState";

export const FILTERS = [
  "status",
  "model",
  "provider",
  "key",
  "team",
  "session",
  "surface",
  "end_user",
  "tag",
  "repository",
  "branch",
  "pull_request",
  "cost_min",
  "latency_min_ms",
  "error",
  "since",
  "until",
] as const;
export type Filter = (typeof FILTERS)[number];

/** What the request log keeps in the address. */
export type RequestsSearch = { [filter in Filter]?: string | undefined } & {
  live?: "true" | undefined;
  sort?: string | undefined;
};

export function requestsSearch(search: Search): RequestsSearch {
  return {
    ...texts(search, [...FILTERS, "sort"]),
    ...(search.live === "true" ? { live: "true" as const } : {}),
  };
}
