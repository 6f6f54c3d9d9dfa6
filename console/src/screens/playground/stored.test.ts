import { beforeEach, expect, it } from "vitest";
import { NO_SETTINGS } from "./draft";
import { NEW_RUN } from "./run";
import { type Conversation, forgetAll, keep, storedConversations, titleOf } from "./stored";

function conversation(id: string): Conversation {
  const turn = { text: " Hello\nthere ", images: ["data:,x"], models: ["m"], runs: [[NEW_RUN]] };
  return {
    id,
    at: "2026-11-25T00:00:00Z",
    surface: "chat",
    models: ["m"],
    settings: NO_SETTINGS,
    turns: [turn],
  };
}

beforeEach(() => localStorage.clear());

it("keeps conversations apart by key, the newest first, without images", () => {
  keep("a", conversation("1"));
  keep("a", conversation("2"));
  keep("a", conversation("1"));
  expect(storedConversations("a").map((item) => item.id)).toEqual(["1", "2"]);
  expect(storedConversations("a")[0]?.turns[0]).toMatchObject({ images: [], runs: [[{ state: "stopped" }]] });
  expect(storedConversations("b")).toEqual([]);
});

it("forgets them all", () => {
  keep("a", conversation("1"));
  forgetAll("a");
  expect(storedConversations("a")).toEqual([]);
});

it("reads nothing out of a damaged storage", () => {
  localStorage.setItem("model-gateway.playground.a", "{");
  expect(storedConversations("a")).toEqual([]);
});

it("calls a conversation by its first words", () => {
  expect(titleOf(conversation("1"))).toBe("Hello there");
});
