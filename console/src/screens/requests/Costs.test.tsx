import { cleanup, render, screen } from "@testing-library/react";
import { afterEach, expect, it } from "vitest";
import type { RequestDetail } from "@/api/pending";
import { Costs } from "./Costs";

const REQUEST = {
  request_id: "req_1",
  prompt_tokens: 0,
  cached_tokens: 0,
  completion_tokens: 0,
  total_tokens: 0,
  cost_usd: 0,
  unpriced: false,
  cache_hit: false,
  attempts: [],
} as unknown as RequestDetail;

afterEach(cleanup);

it("has no table for a request without an upstream call", () => {
  const page = render(<Costs request={REQUEST} />).container;
  expect(page.textContent).toBe("Nothing was used: no upstream call was made. Total: $0.00.");
  expect(screen.queryByRole("table")).toBeNull();
});

it("names the source of the prices in a sentence", () => {
  const cost = {
    model: "demo/chat",
    lines: [],
    units: [],
    total_usd: 0,
    other_attempts_usd: 0,
    matches_log: true,
    price_source: "the gateway itself",
    price_as_of: "2026-11-20",
  };
  render(<Costs request={{ ...REQUEST, cost } as unknown as RequestDetail} />);
  expect(screen.getByText(/Prices of demo\/chat from the gateway itself, as of 2026-11-20\./)).toBeTruthy();
});
