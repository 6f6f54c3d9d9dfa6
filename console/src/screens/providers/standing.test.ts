import { expect, it } from "vitest";
import { keyWords, standingWords } from "./standing";

it("says what a key does and when it is tried again", () => {
  expect(keyWords({ key: 1, state: "alive", status: null, tried_again_in_seconds: null })).toEqual({
    text: "Key 1 not refused",
    look: "plain",
  });
  expect(keyWords({ key: 2, state: "resting", status: 429, tried_again_in_seconds: 12.2 })).toEqual({
    text: "Key 2 rests (status 429), tried again in 13 s",
    look: "warn",
  });
});

it("marks an open circuit as bad", () => {
  expect(standingWords("open").look).toBe("bad");
  expect(standingWords("able").look).toBe("good");
});
