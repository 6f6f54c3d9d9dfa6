import { expect, it } from "vitest";
import { actionOptions, actionWords } from "./words";

it("says what an action did", () => {
  expect(actionWords("key.create")).toBe("made a key");
  expect(actionWords("new.action")).toBe("new.action");
});

it("offers all actions of a kind, and keeps an unknown choice", () => {
  const values = actionOptions("new.action").map((option) => option.value);
  expect(values.slice(0, 2)).toEqual(["", "key."]);
  expect(values.at(-1)).toBe("new.action");
});
