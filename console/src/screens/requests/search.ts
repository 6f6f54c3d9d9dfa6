import { type Search, texts } from "@/app/urlState";

export const FILTERS = [
  "status",
  "model",
  "provider",
  "key",
  "team",
  "session",
  "surface",
  "cost_min",
  "latency_min_ms",
  "error",
  "since",
  "until",
] as const;
export type Filter = (typeof FILTERS)[number];

/** What the request log keeps in the address. */
export function requestsSearch(search: Search) {
  return texts(search, [...FILTERS, "live", "sort"] as const);
}

export type RequestsSearch = ReturnType<typeof requestsSearch>;
