import { expect, it } from "vitest";
import { measuredOf } from "./measured";

const sums = {
  model: "demo/chat",
  requests: 10,
  failed: 1,
  cache_hits: 0,
  prompt_tokens: 1500,
  completion_tokens: 500,
  total_tokens: 2000,
  cached_tokens: 0,
  cache_write_tokens: 0,
  reasoning_tokens: 0,
  cost_usd: 0.004,
  saved_usd: 0,
  unpriced_requests: 0,
};

it("puts the health and the usage of a model together", () => {
  const targets = [{ model: "demo/chat", samples: 5, availability: 99.5, latency_p50_ms: 120 }];
  expect(measuredOf("demo/chat", targets, [sums])).toMatchObject({
    availability: 99.5,
    latencyP50Ms: 120,
    firstTokenMs: null,
    requests: 10,
    usdPerMillion: 2,
  });
});

it("knows no price a million when a part of the requests has none", () => {
  expect(measuredOf("demo/chat", [], [{ ...sums, unpriced_requests: 1 }]).usdPerMillion).toBeNull();
  expect(measuredOf("other", undefined, undefined).requests).toBeNull();
});
