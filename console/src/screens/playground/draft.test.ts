import { expect, it } from "vitest";
import { bodyOf, NO_SETTINGS, type Said, SettingProblem } from "./draft";

const said: Said[] = [{ role: "user", text: "What is it?", images: ["data:image/png;base64,AAAA"] }];
const settings = {
  ...NO_SETTINGS,
  system: "Be short.",
  maxTokens: "64",
  tools: '[{"name":"find","description":"Finds.","parameters":{"type":"object"}}]',
  schema: '{"type":"object"}',
  more: '{"routing":{"strategy":"cheapest"}}',
};

it("writes a chat", () => {
  expect(bodyOf("chat", "demo/chat", said, settings)).toEqual({
    model: "demo/chat",
    messages: [
      { role: "system", content: "Be short." },
      {
        role: "user",
        content: [
          { type: "text", text: "What is it?" },
          { type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } },
        ],
      },
    ],
    max_completion_tokens: 64,
    tools: [
      { type: "function", function: { name: "find", description: "Finds.", parameters: { type: "object" } } },
    ],
    response_format: { type: "json_schema", json_schema: { name: "answer", schema: { type: "object" } } },
    stream: true,
    stream_options: { include_usage: true },
    routing: { strategy: "cheapest" },
  });
});

it("writes the same for Responses, which are not stored", () => {
  expect(bodyOf("responses", "demo/chat", said, settings)).toEqual({
    model: "demo/chat",
    instructions: "Be short.",
    input: [
      {
        role: "user",
        content: [
          { type: "input_text", text: "What is it?" },
          { type: "input_image", image_url: "data:image/png;base64,AAAA", detail: "auto" },
        ],
      },
    ],
    max_output_tokens: 64,
    tools: [{ type: "function", name: "find", description: "Finds.", parameters: { type: "object" } }],
    text: { format: { type: "json_schema", name: "answer", schema: { type: "object" } } },
    store: false,
    stream: true,
    routing: { strategy: "cheapest" },
  });
});

it("writes the same for Messages", () => {
  expect(bodyOf("messages", "demo/chat", said, settings)).toEqual({
    model: "demo/chat",
    max_tokens: 64,
    system: "Be short.",
    messages: [
      {
        role: "user",
        content: [
          { type: "text", text: "What is it?" },
          { type: "image", source: { type: "base64", media_type: "image/png", data: "AAAA" } },
        ],
      },
    ],
    tools: [{ name: "find", description: "Finds.", input_schema: { type: "object" } }],
    output_config: { format: { type: "json_schema", schema: { type: "object" } } },
    stream: true,
    routing: { strategy: "cheapest" },
  });
});

it("takes tools in OpenAI's form, too", () => {
  const tools = '[{"type":"function","function":{"name":"find"}}]';
  expect(bodyOf("messages", "m", said, { ...NO_SETTINGS, tools }).tools).toEqual([
    { name: "find", input_schema: { type: "object", properties: {} } },
  ]);
});

it("names the setting that cannot be sent", () => {
  expect(() => bodyOf("chat", "m", said, { ...NO_SETTINGS, schema: "{" })).toThrow(SettingProblem);
  expect(() => bodyOf("chat", "m", said, { ...NO_SETTINGS, tools: "{}" })).toThrow(
    "Tools must be a JSON array of objects.",
  );
  expect(() => bodyOf("chat", "m", said, { ...NO_SETTINGS, temperature: "warm" })).toThrow(
    "Temperature must be a number.",
  );
});
