// Vercel's AI SDK with its providers for OpenAI, which speaks the Responses API, and for Anthropic.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { APICallError, generateObject, generateText, Output, stepCountIs, streamObject, streamText, tool } from "ai";
import { z } from "zod";
import { collect, startGateway } from "./gateway.mjs";

const City = z.object({ name: z.string(), people: z.number().int() });
const prompt = "Hello there, how are you today?";

// The SDK warns that it does not know our models.
globalThis.AI_SDK_LOG_WARNINGS = false;

for (const [name, create] of [
  ["@ai-sdk/openai", ({ baseURL, key }) => createOpenAI({ baseURL, apiKey: key })],
  ["@ai-sdk/anthropic", ({ baseURL, key }) => createAnthropic({ baseURL, apiKey: key })],
  ["@ai-sdk/anthropic with a bearer token", ({ baseURL, key }) => createAnthropic({ baseURL, authToken: key })],
]) {
  describe(name, () => {
    let gateway, provider;
    before(async () => {
      gateway = await startGateway();
      provider = create(gateway);
    });
    after(() => gateway.stop());

    const model = (id = "demo/chat") => provider(id);

    it("generates text", async () => {
      const answer = await generateText({ model: model(), prompt });
      assert.match(answer.text, /how are you today/);
      assert.equal(answer.finishReason, "stop");
      assert.ok(answer.usage.inputTokens > 0 && answer.usage.outputTokens > 0);
      assert.equal(answer.response.body.gateway.model_used, "demo/chat");
      assert.match(answer.response.headers["x-request-id"], /^req_/);
    });

    it("streams text with its usage", async () => {
      const whole = await generateText({ model: model(), prompt });
      const result = streamText({ model: model(), prompt });
      const pieces = await collect(result.textStream);
      assert.ok(pieces.length > 1);
      assert.equal(pieces.join(""), whole.text);
      assert.equal(await result.finishReason, "stop");
      const usage = await result.usage;
      assert.equal(usage.inputTokens, whole.usage.inputTokens);
      assert.equal(usage.outputTokens, whole.usage.outputTokens);
    });

    it("holds a conversation with a system prompt", async () => {
      const messages = [
        { role: "user", content: "First question" },
        { role: "assistant", content: "First answer" },
        { role: "user", content: "Second question" },
      ];
      const answer = await generateText({ model: model(), system: "Be brief.", messages });
      assert.match(answer.text, /Second question/);
    });

    it("says that a limit cut the answer", async () => {
      const request = { model: model(), prompt: "Repeat: " + "word ".repeat(60), maxOutputTokens: 16 };
      const answer = await generateText(request);
      assert.equal(answer.finishReason, "length");
      const result = streamText(request);
      assert.equal((await collect(result.textStream)).join(""), answer.text);
      assert.equal(await result.finishReason, "length");
    });

    const asked = [];
    const tools = {
      get_weather: tool({
        description: "The weather of a city",
        inputSchema: z.object({ city: z.string(), days: z.number().int() }),
        execute: async (input) => {
          asked.push(input);
          return "sunny";
        },
      }),
      get_nothing: tool({ inputSchema: z.object({}), execute: async () => "nothing" }),
    };

    it("calls tools and goes on with their results, plain", async () => {
      asked.length = 0;
      const request = { model: model(), tools, prompt: "get weather in Paris", stopWhen: stepCountIs(3) };
      const answer = await generateText(request);
      assert.equal(answer.steps.length, 2);
      assert.equal(answer.steps[0].finishReason, "tool-calls");
      assert.deepEqual(answer.steps[0].toolCalls.map((call) => call.toolName), ["get_weather"]);
      assert.equal(asked.length, 1);
      assert.match(answer.text, /sunny/);
    });

    it("calls tools and goes on with their results, streamed", async () => {
      asked.length = 0;
      const said = "get weather and get nothing";
      const result = streamText({ model: model(), tools, prompt: said, stopWhen: stepCountIs(3) });
      const text = (await collect(result.textStream)).join("");
      const steps = await result.steps;
      assert.deepEqual(steps[0].toolCalls.map((call) => call.toolName), ["get_weather", "get_nothing"]);
      assert.equal(new Set(steps[0].toolCalls.map((call) => call.toolCallId)).size, 2);
      assert.equal(steps[0].finishReason, "tool-calls");
      assert.equal(asked.length, 1);
      assert.match(text, /nothing/);
    });

    it("calls the tool that it must call", async () => {
      const toolChoice = { type: "tool", toolName: "get_nothing" };
      const answer = await generateText({ model: model(), tools, toolChoice, prompt });
      assert.deepEqual(answer.toolCalls.map((call) => call.toolName), ["get_nothing"]);
    });

    it("gives objects of a schema, plain and streamed", async () => {
      const { object: city } = await generateObject({ model: model(), schema: City, prompt: "A city" });
      assert.ok(City.safeParse(city).success);
      const { partialObjectStream } = streamObject({ model: model(), schema: City, prompt: "A city" });
      assert.deepEqual((await collect(partialObjectStream)).at(-1), city);
      const { output } = await generateText({ model: model(), output: Output.object({ schema: City }), prompt: "A city" });
      assert.deepEqual(output, city);
    });

    it("tells our errors apart", async () => {
      const overloaded = name === "@ai-sdk/openai" ? 503 : 529; // Anthropic's API has a status of its own
      for (const [id, status, retryable, said] of [
        ["no/such-model", 404, false, /no\/such-model/],
        ["demo/error-400", 400, false, /refuses/],
        ["demo/error-429", 429, true, /limiting/],
        ["demo/error-503", overloaded, true, /overloaded/],
      ]) {
        const answer = generateText({ model: model(id), prompt, maxRetries: 0 });
        const error = await answer.then(assert.fail, (error) => error);
        assert.ok(APICallError.isInstance(error), `${id}: ${error}`);
        assert.equal(error.statusCode, status);
        assert.equal(error.isRetryable, retryable);
        assert.match(error.message, said);
        assert.equal(typeof error.data.error.type, "string");
      }
    });

    for (const id of ["demo/cut", "demo/truncate", "demo/error-mid"]) {
      it(`surfaces an error when the stream of ${id} breaks`, async () => {
        const errors = [];
        const result = streamText({ model: model(id), prompt, onError: ({ error }) => errors.push(error) });
        const parts = await collect(result.fullStream);
        assert.ok(parts.some((part) => part.type === "text-delta"));
        assert.equal(parts.filter((part) => part.type === "error").length, 1);
        assert.equal(errors.length, 1);
        assert.equal(await result.finishReason, "error");
      });
    }
  });
}

describe("@ai-sdk/openai and stored responses", () => {
  let gateway, provider;
  before(async () => {
    gateway = await startGateway();
    provider = createOpenAI({ baseURL: gateway.baseURL, apiKey: gateway.key });
  });
  after(() => gateway.stop());

  it("goes on from an earlier response", async () => {
    const first = await generateText({ model: provider("demo/chat"), prompt: "First question" });
    const { responseId } = first.providerMetadata.openai;
    assert.match(responseId, /^resp_/);
    const options = { openai: { previousResponseId: responseId } };
    const more = { model: provider("demo/chat"), prompt: "Second question" };
    const second = await generateText({ ...more, providerOptions: options });
    assert.match(second.text, /Second question/);
    // The earlier turns are part of the prompt.
    assert.ok(second.usage.inputTokens > (await generateText(more)).usage.inputTokens);
  });

  it("speaks the chat API, too", async () => {
    const answer = await generateText({ model: provider.chat("demo/chat"), prompt });
    assert.match(answer.text, /how are you today/);
  });
});
