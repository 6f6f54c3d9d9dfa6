import { expect, it } from "vitest";
import { compareCells, nextSort, parseSort } from "./sorting";

it("reads the order of the address", () => {
  expect(parseSort("cost.desc")).toEqual({ column: "cost", isDescending: true });
  expect(parseSort("cost")).toBeUndefined();
  expect(parseSort(undefined)).toBeUndefined();
});

it("turns an order round, then ends it", () => {
  expect(nextSort(undefined, "cost", true)).toBe("cost.desc");
  expect(nextSort("cost.desc", "cost", true)).toBe("cost.asc");
  expect(nextSort("cost.asc", "cost", true)).toBeUndefined();
  expect(nextSort("cost.desc", "name", false)).toBe("name.asc");
});

it("orders numbers as numbers and puts empty cells before them", () => {
  expect([10, 9, null].sort(compareCells)).toEqual([null, 9, 10]);
  expect(["model-10", "model-9"].sort(compareCells)).toEqual(["model-9", "model-10"]);
});
