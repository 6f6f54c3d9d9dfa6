import type { Schemas } from "@/api/client";

export type Counter = Schemas["RuleState"];

/** The requests that a counter counts: `end_user = ann`, or all of the rule. */
export function counterName({ split }: Pick<Counter, "split">): string {
  const parts = Object.entries(split ?? {}).map(([name, value]) => `${name} = ${value ?? "none"}`);
  return parts.length === 0 ? "all requests of the rule" : parts.join(", ");
}

export interface Use {
  label: string;
  used: number;
  limit: number;
}

/** What is used of each limit that the rule has. Reserved money counts as used: a request in flight may need it. */
export function usesOf(counter: Counter): Use[] {
  const uses: Use[] = [];
  const add = (label: string, limit: number | null | undefined, left: number | null | undefined) => {
    if (typeof limit === "number") uses.push({ label, limit, used: limit - (left ?? limit) });
  };
  add("Requests a minute", counter.rpm, counter.requests_left);
  add("Tokens a minute", counter.tpm, counter.tokens_left);
  add("Requests in flight", counter.in_flight, counter.in_flight_left);
  return uses;
}
