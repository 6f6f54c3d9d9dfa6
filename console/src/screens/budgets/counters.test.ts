import { describe, expect, it } from "vitest";
import { type Counter, counterName, usesOf } from "./counters";

const NONE = {
  name: "shop",
  mode: "enforce",
  period: "month",
  split: {},
  budget_usd: null,
  spent_usd: null,
  reserved_usd: null,
  left_usd: null,
  rpm: null,
  requests_left: null,
  tpm: null,
  tokens_left: null,
  in_flight: null,
  in_flight_left: null,
  resets_at: null,
  fits: true,
  binds: false,
} as const satisfies Counter;

describe("a counter of a rule", () => {
  it("is named by what it is split by", () => {
    expect(counterName(NONE)).toBe("all requests of the rule");
    expect(counterName({ split: { end_user: "ann", team: null } })).toBe("end_user = ann, team = none");
  });

  it("shows the limits that the rule has", () => {
    expect(usesOf(NONE)).toEqual([]);
    expect(usesOf({ ...NONE, rpm: 60, requests_left: 15, in_flight: 4, in_flight_left: 4 })).toEqual([
      { label: "Requests a minute", limit: 60, used: 45 },
      { label: "Requests in flight", limit: 4, used: 0 },
    ]);
  });
});
