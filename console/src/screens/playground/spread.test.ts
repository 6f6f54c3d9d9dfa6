import { expect, it } from "vitest";
import { NO_ANSWER } from "./answer";
import { speedOf, spreadOf } from "./spread";

it("finds the middle of an odd and of an even number of figures", () => {
  expect(spreadOf([3, null, 1, 2])).toEqual({ min: 1, median: 2, max: 3 });
  expect(spreadOf([4, 1, 2, 3])).toEqual({ min: 1, median: 2.5, max: 4 });
  expect(spreadOf([null])).toBeNull();
});

it("counts the speed after the first token", () => {
  const answer = { ...NO_ANSWER, completionTokens: 50 };
  expect(speedOf({ answer, ttftMs: 500, totalMs: 1500 })).toBe(50);
  expect(speedOf({ answer, ttftMs: 500, totalMs: 500 })).toBe(100);
  expect(speedOf({ answer: NO_ANSWER, ttftMs: 1, totalMs: 2 })).toBeNull();
});
