import { expect, it } from "vitest";
import { diffLines, diffValues, withoutSecrets } from "./diff";

const shown = (lines: ReturnType<typeof diffLines>) =>
  lines.map((line) => `${line.kind === "same" ? " " : line.kind === "added" ? "+" : "-"}${line.text}`);

it("shows what is removed before what is added", () => {
  expect(shown(diffLines(["a", "b", "c"], ["a", "x", "c", "d"]))).toEqual([" a", "-b", "+x", " c", "+d"]);
});

it("shows a new value as added and a deleted one as removed", () => {
  expect(shown(diffValues(null, { targets: ["demo/chat"] }))).toEqual([
    "+{",
    '+  "targets": [',
    '+    "demo/chat"',
    "+  ]",
    "+}",
  ]);
  expect(diffValues({ a: 1 }, undefined).every((line) => line.kind === "removed")).toBe(true);
});

it("is empty of changes for equal values", () => {
  expect(diffValues({ a: 1 }, { a: 1 }).every((line) => line.kind === "same")).toBe(true);
});

it("names new secrets without showing them", () => {
  const provider = {
    api_key: "sk-live",
    keys: ["a", "***"],
    headers: { Authorization: "Bearer x" },
    base_url: "https://x.example",
    max_tokens: 5,
  };
  expect(withoutSecrets(provider)).toEqual({
    api_key: "(a new secret)",
    keys: ["(a new secret)", "***"],
    headers: { Authorization: "(a new secret)" },
    base_url: "https://x.example",
    max_tokens: 5,
  });
});
