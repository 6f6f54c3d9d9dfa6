import { expect, it } from "vitest";
import { EventParser } from "./sse";

it("puts events together from pieces that end anywhere", () => {
  const parser = new EventParser();
  const text = 'event: delta\ndata: {"a":\ndata: 1}\n\n: comment\ndata:two\r\n\r\n';
  const whole = new EventParser().push(text);
  const pieces = [...text].flatMap((character) => parser.push(character));
  expect(whole).toEqual([
    { event: "delta", data: '{"a":\n1}' },
    { event: "message", data: "two" },
  ]);
  expect(pieces).toEqual(whole);
});

it("leaves out an event without data and one without its end", () => {
  expect(new EventParser().push("event: ping\n\ndata: unfinished\n")).toEqual([]);
});
