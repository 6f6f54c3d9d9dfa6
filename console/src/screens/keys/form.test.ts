import { expect, it } from "vitest";
import { changedMembers, EMPTY_KEY, EMPTY_LIMITS, keyBody, keyForm, limitsBody, limitsForm } from "./form";

const stored = {
  rpm: 60,
  burst: null,
  tpm: null,
  max_in_flight: null,
  budget_usd: 0.000000125,
  budget_period: "day" as const,
  on_budget: "cut" as const,
  unpriced: "allow" as const,
};

it("keeps every digit of an amount", () => {
  expect(limitsForm(stored).budget).toBe("0.000000125");
  expect(limitsForm({ ...stored, budget_usd: 25 }).budget).toBe("25");
  expect(limitsBody(limitsForm(stored))).toEqual({ ...stored, budget_usd: "0.000000125" });
});

it("sends nothing of a budget that is not there", () => {
  expect(limitsBody({ ...EMPTY_LIMITS, burst: "5" })).toEqual({
    budget_usd: null,
    budget_period: null,
    on_budget: null,
    unpriced: null,
    rpm: null,
    burst: null,
    tpm: null,
    max_in_flight: null,
  });
});

it("reads lists of models and times in UTC", () => {
  const body = keyBody({
    ...EMPTY_KEY,
    name: " app ",
    models: "openai/*, demo/chat\n",
    expiresAt: "2026-12-01T10:30",
  });
  expect(body).toMatchObject({
    name: "app",
    models: ["openai/*", "demo/chat"],
    expires_at: "2026-12-01T10:30:00Z",
  });
});

it("changes only what was changed", () => {
  const before = keyBody({ ...EMPTY_KEY, name: "app", rpm: "60" });
  const after = keyBody({ ...EMPTY_KEY, name: "app", budget: "5" });
  expect(changedMembers(before, after)).toEqual({
    budget_usd: "5",
    budget_period: "month",
    on_budget: "finish",
    unpriced: "allow",
    rpm: null,
  });
  expect(changedMembers(before, before)).toEqual({});
});

it("fills a form from a key and back", () => {
  const key = {
    ...stored,
    name: "app",
    role: "viewer",
    team: "search",
    models: null,
    expires_at: null,
    log_payloads: true,
  };
  expect(keyBody(keyForm(key as never))).toEqual({ ...key, budget_usd: "0.000000125" });
});
