// Vercel's `openai(...)` in loops of six steps, on a provider with a Responses API that keeps state as OpenAI does.

import assert from "node:assert/strict";
import { after, before, beforeEach, describe, it } from "node:test";
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";
import { startGateway } from "./gateway.mjs";
import { responsesUpstream } from "./responses-upstream.mjs";

const STEPS = 6;
const prompt = "Look around.";

// The SDK warns of what it does not know.
globalThis.AI_SDK_LOG_WARNINGS = false;

/** What is left of an item when a client sends it back. */
function essence({ type = "message", role, content, name, arguments: args, summary }) {
  if (type === "message") return { role, text: typeof content === "string" ? content : content.map(({ text }) => text).join("") };
  return { type, ...(type === "reasoning" ? { summary } : { name, arguments: args }) };
}

describe("Vercel's loops of six steps", () => {
  let upstream, gateway, provider;
  before(async () => {
    // Five steps of a text and one or two calls, then a text alone.
    upstream = await responsesUpstream((items) => {
      const step = items.slice(items.findLastIndex(({ role }) => role === "user")).filter(({ role }) => role === "assistant").length;
      const text = `Step ${step}.`;
      if (step === STEPS - 1) return { text };
      const calls = Array.from({ length: 1 + (step % 2) }, (_, at) => ["look", { at: `${step}-${at}` }]);
      return { text, calls };
    });
    gateway = await startGateway(`
[[providers]]
name = "keeper"
api = "openai"
base_url = "${upstream.url}/v1"
api_key = "k"

[[models]]
id = "keeper/gpt-4.1"

[[models]]
id = "keeper/gpt-5"
`);
    provider = createOpenAI({ baseURL: gateway.baseURL, apiKey: gateway.key });
  });
  after(async () => {
    await gateway.stop();
    await upstream.stop();
  });
  beforeEach(() => {
    for (const list of [upstream.requests, upstream.conversations, upstream.faults]) list.length = 0;
  });

  const looked = [];
  const tools = {
    look: tool({
      inputSchema: z.object({ at: z.string() }),
      execute: async ({ at }) => {
        looked.push(at);
        return `seen ${at}`;
      },
    }),
  };

  async function loop(streamed, request) {
    looked.length = 0;
    const whole = { tools, stopWhen: stepCountIs(STEPS + 1), maxRetries: 0, ...request };
    if (!streamed) return (await generateText(whole)).steps;
    return streamText({ ...whole, onError: ({ error }) => assert.fail(error) }).steps;
  }

  /** The items of one loop as the provider must have got them in the last step. */
  function expected(reasons) {
    const items = [{ role: "user", text: prompt }];
    for (let step = 0; step < STEPS - 1; step++) {
      if (reasons) items.push({ type: "reasoning", summary: [{ type: "summary_text", text: "I think." }] });
      items.push({ role: "assistant", text: `Step ${step}.` });
      const places = step % 2 ? [`${step}-0`, `${step}-1`] : [`${step}-0`];
      for (const at of places) items.push({ type: "function_call", name: "look", arguments: JSON.stringify({ at }) });
      for (const at of places) items.push({ type: "function_call_output", output: `seen ${at}` });
    }
    return items;
  }

  const shown = (item) =>
    item.type === "function_call_output" ? { type: item.type, output: item.output } : essence(item);

  for (const name of ["gpt-4.1", "gpt-5"]) {
    const reasons = name === "gpt-5";
    for (const store of [undefined, false]) {
      for (const streamed of [false, true]) {
        const how = `${streamed ? "streamText" : "generateText"}, ${name}, store ${store ?? "by default"}`;

        it(`${how}: each step has all that came before it`, async () => {
          const openai = { ...(store !== undefined && { store }), ...(reasons && { reasoningSummary: "auto" }) };
          const steps = await loop(streamed, { model: provider(name), prompt, providerOptions: { openai } });
          assert.deepEqual(upstream.faults, []);
          assert.deepEqual(steps.map(({ text }) => text), Array.from({ length: STEPS }, (_, step) => `Step ${step}.`));
          assert.deepEqual(steps.map(({ finishReason }) => finishReason), [...Array(STEPS - 1).fill("tool-calls"), "stop"]);
          assert.deepEqual(looked, ["0-0", "1-0", "1-1", "2-0", "3-0", "3-1", "4-0"]);
          assert.equal(upstream.requests.length, STEPS); // nothing was asked twice
          assert.deepEqual(upstream.conversations.at(-1).map(shown), expected(reasons));
        });
      }
    }

    for (const streamed of [false, true]) {
      it(`${streamed ? "streamText" : "generateText"}, ${name}: each step goes on from the response before it`, async () => {
        const first = await loop(streamed, { model: provider(name), prompt });
        // Of a fixed `previousResponseId`, the SDK leaves out the thoughts of the steps behind it, which OpenAI then misses.
        const prepareStep = ({ steps, messages }) => {
          const { responseId } = [...first, ...steps].at(-1).providerMetadata.openai;
          return { messages: messages.slice(-1), providerOptions: { openai: { previousResponseId: responseId } } };
        };
        const second = await loop(streamed, { model: provider(name), prompt, prepareStep });
        assert.deepEqual(upstream.faults, []);
        assert.equal(second.length, STEPS);
        const last = [...(reasons ? expected(true).slice(1, 2) : []), { role: "assistant", text: "Step 5." }];
        const both = [...expected(reasons), ...last, ...expected(reasons)];
        assert.deepEqual(upstream.conversations.at(-1).map(shown), both);
      });
    }
  }
});
