import { expect, it } from "vitest";
import { NO_SETTINGS } from "./draft";
import { openedOf } from "./opened";

function payload(body: unknown, isCut = false) {
  return {
    at: "",
    request: JSON.stringify(body),
    request_truncated: isCut,
    response: "",
    response_truncated: false,
  };
}

it("opens a chat with its system prompt and its parameters", () => {
  const body = {
    model: "m",
    temperature: 0.5,
    messages: [
      { role: "system", content: "Be short." },
      {
        role: "user",
        content: [
          { type: "text", text: "Hi" },
          { type: "image_url", image_url: { url: "data:,x" } },
        ],
      },
    ],
  };
  expect(openedOf({ surface: "chat", payload: payload(body) })).toEqual({
    surface: "chat",
    settings: { ...NO_SETTINGS, system: "Be short.", temperature: "0.5" },
    said: [{ role: "user", text: "Hi", images: ["data:,x"] }],
  });
});

it("opens the other surfaces", () => {
  const responses = { instructions: "Be short.", input: "Hi", max_output_tokens: 9 };
  expect(openedOf({ surface: "responses", payload: payload(responses) })).toMatchObject({
    surface: "responses",
    settings: { system: "Be short.", maxTokens: "9" },
    said: [{ role: "user", text: "Hi" }],
  });
  const messages = {
    system: [{ type: "text", text: "S" }],
    messages: [{ role: "user", content: "Hi" }],
    max_tokens: 5,
  };
  expect(openedOf({ surface: "messages", payload: payload(messages) })).toMatchObject({
    settings: { system: "S", maxTokens: "5" },
    said: [{ role: "user", text: "Hi" }],
  });
});

it("opens an empty conversation for a prompt that was not kept or was cut", () => {
  const empty = { surface: "chat", settings: NO_SETTINGS, said: [] };
  expect(openedOf({ surface: "embeddings", payload: null })).toEqual(empty);
  expect(openedOf({ surface: "chat", payload: payload({ messages: [] }, true) })).toEqual(empty);
});
