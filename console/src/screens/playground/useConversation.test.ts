import { expect, it } from "vitest";
import { NO_ANSWER } from "./answer";
import { NEW_RUN } from "./run";
import { historyOf } from "./useConversation";

it("continues each model's own conversation with its first answer", () => {
  const run = (text: string) => ({ ...NEW_RUN, answer: { ...NO_ANSWER, text } });
  const turns = [
    { text: "A", images: [], models: ["x", "y"], runs: [[run("")], [run("y1"), run("y2")]] },
    { text: "B", images: [], models: ["x", "y"], runs: [[run("x1")], [run("y3")]] },
  ];
  expect(historyOf(turns, 0)).toEqual([
    { role: "user", text: "B", images: [] },
    { role: "assistant", text: "x1" },
  ]);
  expect(historyOf(turns, 1).map((said) => said.text)).toEqual(["A", "y1", "B", "y3"]);
  expect(historyOf(turns, 2)).toEqual([]);
});
