import { expect, it } from "vitest";
import { rulesOf } from "./rules";

it("reads the guards of the configuration", () => {
  const guards = [
    { max_calls: 300, max_cost_usd: "5" },
    { match: { keys: ["agents"], teams: ["a", "b"] }, max_repeats: 20, action: "warn" },
  ];
  expect(rulesOf({ guards })).toEqual([
    { action: "stop", scope: "all requests with a session", limits: ["300 calls", "$5.00 cost"] },
    { action: "warn", scope: "keys agents; teams a, b", limits: ["one tool call 20 times"] },
  ]);
});

it("finds none in a configuration without guards", () => {
  expect(rulesOf({})).toEqual([]);
  expect(rulesOf(null)).toEqual([]);
});
