// Vercel's AI SDK with its provider for OpenAI-compatible services.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, embedMany, generateText, Output, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";
import { assertClose, collect, startGateway } from "./gateway.mjs";

const City = z.object({ name: z.string(), people: z.number().int() });
const prompt = "Hello there, how are you today?";

describe("Vercel's AI SDK", () => {
  let gateway, provider;
  before(async () => {
    gateway = await startGateway();
    provider = createOpenAICompatible({
      name: "gateway",
      baseURL: gateway.baseURL,
      apiKey: gateway.key,
      includeUsage: true,
      supportsStructuredOutputs: true,
    });
  });
  after(() => gateway.stop());

  const model = (name = "demo/chat") => provider(name);

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
    assert.equal((await collect(result.textStream)).join(""), whole.text);
    assert.equal(await result.finishReason, "stop");
    const usage = await result.usage;
    assert.equal(usage.inputTokens, whole.usage.inputTokens);
    assert.equal(usage.outputTokens, whole.usage.outputTokens);
  });

  it("says that a limit cut the answer", async () => {
    const answer = await generateText({ model: model(), prompt, maxOutputTokens: 2 });
    assert.equal(answer.finishReason, "length");
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
    assert.equal(answer.steps[0].toolCalls[0].toolName, "get_weather");
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
    assert.equal(asked.length, 1);
    assert.match(text, /nothing/);
  });

  it("gives objects of a schema, plain and streamed", async () => {
    const output = Output.object({ schema: City });
    const { output: city } = await generateText({ model: model(), output, prompt: "A city" });
    assert.ok(City.safeParse(city).success);
    const result = streamText({ model: model(), output, prompt: "A city" });
    const partial = await collect(result.partialOutputStream);
    assert.deepEqual(partial.at(-1), city);
  });

  it("completes text with a completion model", async () => {
    const completion = provider.completionModel("demo/chat");
    const whole = await generateText({ model: completion, prompt: "Once upon a time" });
    assert.match(whole.text, /Once upon a time/);
    const result = streamText({ model: completion, prompt: "Once upon a time" });
    assert.equal((await collect(result.textStream)).join(""), whole.text);
  });

  it("embeds many texts in their order", async () => {
    const embedding = provider.embeddingModel("demo/embed");
    const values = ["one", "two", "three"];
    const { embeddings, usage } = await embedMany({ model: embedding, values });
    assert.equal(embeddings.length, 3);
    for (const [index, value] of values.entries()) {
      const alone = await embedMany({ model: embedding, values: [value] });
      assertClose(alone.embeddings[0], embeddings[index]);
    }
    assert.ok(usage.tokens > 0);
  });

  it("tells our errors apart", async () => {
    const fails = (name) =>
      generateText({ model: model(name), prompt, maxRetries: 0 }).then(assert.fail, (error) => error);
    for (const [name, status, retryable, said] of [
      ["no/such-model", 404, false, /no\/such-model/],
      ["demo/error-400", 400, false, /./],
      ["demo/error-429", 429, true, /./],
      ["demo/error-503", 503, true, /./],
    ]) {
      const error = await fails(name);
      assert.ok(APICallError.isInstance(error), `${name}: ${error}`);
      assert.equal(error.statusCode, status);
      assert.equal(error.isRetryable, retryable);
      assert.match(error.message, said);
      assert.equal(typeof error.data.error.code, "string");
    }
  });

  for (const name of ["demo/cut", "demo/truncate", "demo/error-mid"]) {
    it(`surfaces an error when the stream of ${name} breaks`, async () => {
      const errors = [];
      const result = streamText({ model: model(name), prompt, onError: ({ error }) => errors.push(error) });
      const parts = await collect(result.fullStream);
      assert.equal(parts.filter((part) => part.type === "error").length, 1);
      assert.equal(errors.length, 1);
      assert.ok(parts.some((part) => part.type === "text-delta"));
      assert.equal(await result.finishReason, "error");
    });
  }
});
