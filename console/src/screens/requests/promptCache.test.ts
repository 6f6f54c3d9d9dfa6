import { expect, it } from "vitest";
import { type Miss, missText } from "./promptCache";

const MISS: Miss = {
  cause: "message",
  index: 2,
  age_seconds: 12,
  ttl_seconds: 300,
  lost_tokens: 1800,
  lost_usd: 0.00486,
};

it("counts messages from one, and says what the miss cost", () => {
  expect(missText(MISS)).toBe(
    "1,800 tokens less than the session's last request left in the cache, which cost $0.00486. Message 3 has changed.",
  );
});

it("says how old an expired entry was", () => {
  expect(missText({ ...MISS, cause: "expired", index: null, age_seconds: 400, lost_usd: null })).toBe(
    "1,800 tokens less than the session's last request left in the cache. The entry was 400 s old, and entries live 300 s.",
  );
});
