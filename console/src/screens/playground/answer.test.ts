import { expect, it } from "vitest";
import { type Answer, hasBegun, NO_ANSWER, withEvent } from "./answer";
import type { Surface } from "./draft";

function read(surface: Surface, ...data: unknown[]): Answer {
  return data.reduce<Answer>(
    (answer, item) => withEvent(surface, answer, { event: "message", data: JSON.stringify(item) }),
    NO_ANSWER,
  );
}

const gateway = { model_used: "demo/chat", cache_hit: false, warnings: [] };

it("reads a chat with a tool and the gateway's figures", () => {
  const answer = read(
    "chat",
    { choices: [{ delta: { content: "<b>" } }] },
    { choices: [{ delta: { tool_calls: [{ index: 0, function: { name: "find", arguments: '{"a"' } }] } }] },
    { choices: [{ delta: { tool_calls: [{ index: 0, function: { arguments: ":1}" } }] } }] },
    { choices: [{ delta: {}, finish_reason: "tool_calls" }] },
    { choices: [], usage: { prompt_tokens: 3, completion_tokens: 2, cost_usd: 0.5 }, gateway },
  );
  expect(answer).toEqual({
    ...NO_ANSWER,
    text: "<b>",
    tools: { 0: { name: "find", arguments: '{"a":1}' } },
    promptTokens: 3,
    completionTokens: 2,
    costUsd: 0.5,
    answeredBy: "demo/chat",
    finish: "tool_calls",
  });
});

it("reads Responses", () => {
  const answer = read(
    "responses",
    { type: "response.output_text.delta", delta: "Hi" },
    { type: "response.output_item.added", output_index: 1, item: { type: "function_call", name: "find" } },
    { type: "response.function_call_arguments.delta", output_index: 1, delta: "{}" },
    {
      type: "response.completed",
      response: { status: "completed", usage: { input_tokens: 1, output_tokens: 4, cost_usd: 0 }, gateway },
    },
  );
  expect(answer).toMatchObject({ text: "Hi", promptTokens: 1, completionTokens: 4, costUsd: 0 });
  expect(answer.tools).toEqual({ 1: { name: "find", arguments: "{}" } });
});

it("reads Messages", () => {
  const answer = read(
    "messages",
    { type: "message_start", message: { usage: { input_tokens: 9, output_tokens: 1 } } },
    { type: "content_block_delta", index: 0, delta: { type: "thinking_delta", thinking: "Hm." } },
    { type: "content_block_delta", index: 1, delta: { type: "text_delta", text: "Hi" } },
    {
      type: "message_delta",
      delta: { stop_reason: "end_turn" },
      usage: { output_tokens: 4, cost_usd: 0.25 },
    },
  );
  expect(answer).toMatchObject({
    text: "Hi",
    reasoning: "Hm.",
    promptTokens: 9,
    completionTokens: 4,
    costUsd: 0.25,
    finish: "end_turn",
  });
});

it("keeps what arrived before an error, and no cost without a price", () => {
  const failed = read(
    "chat",
    { choices: [{ delta: { content: "Hi" } }] },
    {
      error: { message: "Failed.", type: "upstream_error", code: "upstream_stream_error" },
    },
  );
  expect(failed).toMatchObject({ text: "Hi", error: { message: "Failed.", code: "upstream_stream_error" } });
  const unpriced = read("chat", { usage: { cost_usd: 0 }, gateway: { warnings: ["price_unknown"] } });
  expect(unpriced.costUsd).toBeNull();
  expect(hasBegun(unpriced)).toBe(false);
});
