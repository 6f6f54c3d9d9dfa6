// OpenAI's own SDK for Node, as its users use it.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import OpenAI from "openai";
import { zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";
import { assertClose, collect, startGateway, weather } from "./gateway.mjs";

const messages = [{ role: "user", content: "Hello there, how are you today?" }];

describe("openai for Node", () => {
  let gateway, client;
  before(async () => {
    gateway = await startGateway();
    client = new OpenAI({ baseURL: gateway.baseURL, apiKey: gateway.key, maxRetries: 0 });
  });
  after(() => gateway.stop());

  const ask = (request, options) =>
    client.chat.completions.create({ model: "demo/chat", messages, ...request }, options);

  it("answers a chat with cost and the gateway object", async () => {
    const answer = await ask({});
    assert.equal(answer.object, "chat.completion");
    assert.ok(answer.choices[0].message.content.includes("how are you today?"));
    assert.equal(answer.choices[0].finish_reason, "stop");
    assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens);
    assert.ok(answer.usage.cost_usd >= 0);
    assert.equal(answer.gateway.model_used, "demo/chat");
    assert.equal(answer._request_id, answer.gateway.request_id);
    const { data, response, request_id } = await ask({}).withResponse();
    assert.equal(response.headers.get("x-request-id"), request_id);
    assert.equal(data.gateway.request_id, request_id);
  });

  it("streams what it would have answered", async () => {
    const whole = await ask({});
    const chunks = await collect(await ask({ stream: true, stream_options: { include_usage: true } }));
    assert.deepEqual(chunks[0].choices[0].delta, { role: "assistant" });
    const text = chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").join("");
    assert.equal(text, whole.choices[0].message.content);
    assert.equal(new Set(chunks.map((chunk) => chunk.id)).size, 1);
    const last = chunks.at(-1);
    assert.deepEqual(last.choices, []);
    assert.deepEqual(last.usage, whole.usage);
    assert.equal(last.gateway.model_used, "demo/chat");
    assert.equal(chunks.at(-2).choices[0].finish_reason, "stop");
  });

  it("makes images, complete and as a stream", async () => {
    const made = await client.images.generate({ model: "demo/images", prompt: "a cat", n: 2, size: "512x256" });
    assert.equal(made.data.length, 2);
    assert.ok(Buffer.from(made.data[0].b64_json, "base64").subarray(1, 4).equals(Buffer.from("PNG")));
    assert.equal(made.usage.total_tokens, made.usage.input_tokens + made.usage.output_tokens);
    const events = [];
    const request = { model: "demo/images", prompt: "a cat", stream: true, partial_images: 1 };
    for await (const event of await client.images.generate(request)) events.push(event);
    assert.deepEqual(events.map((event) => event.type), ["image_generation.partial_image", "image_generation.completed"]);
    assert.equal(events[1].usage.input_tokens_details.image_tokens, 0);
  });

  it("moderates texts, with and without a model", async () => {
    const both = await client.moderations.create({ model: "demo/moderation", input: ["peace", "violence"] });
    assert.deepEqual(both.results.map((result) => result.flagged), [false, true]);
    const one = await client.moderations.create({ input: [{ type: "text", text: "violence" }] });
    assert.equal(one.results[0].categories.violence, true);
    assert.equal(one.results[0].category_scores.violence, 1);
  });

  it("feeds the stream helper, several choices at once", async () => {
    const final = await client.chat.completions.stream({ model: "demo/chat", messages, n: 3 }).finalChatCompletion();
    const whole = await ask({ n: 3 });
    assert.deepEqual(
      final.choices.map((choice) => choice.message.content),
      whole.choices.map((choice) => choice.message.content),
    );
    assert.deepEqual(final.choices.map((choice) => choice.message.role), Array(3).fill("assistant"));
  });

  it("can be cancelled in the middle of a stream", async () => {
    const stream = await ask({ model: "demo/stall", stream: true });
    for await (const chunk of stream) {
      if (chunk.choices[0].delta.content) break; // it would be silent from here on
    }
    assert.ok(stream.controller.signal.aborted);
  });

  it("holds a conversation with a tool", async () => {
    const tool_choice = { type: "function", function: { name: "get_weather" } };
    const first = await ask({ tools: [weather], tool_choice });
    const { message, finish_reason } = first.choices[0];
    assert.equal(message.content, "");
    assert.equal(finish_reason, "tool_calls");
    const [call] = message.tool_calls;
    assert.deepEqual(Object.keys(JSON.parse(call.function.arguments)).sort(), ["city", "days"]);
    const result = { role: "tool", tool_call_id: call.id, content: "sunny" };
    const last = await ask({ messages: [...messages, message, result], tools: [weather] });
    assert.match(last.choices[0].message.content, /sunny/);
    assert.equal(last.choices[0].message.tool_calls, undefined);
  });

  it("streams tool calls that the SDK puts together again", async () => {
    const clock = { type: "function", function: { name: "get_time", parameters: { type: "object" } } };
    const said = [{ role: "user", content: "get weather and get time" }];
    const request = { model: "demo/chat", messages: said, tools: [weather, clock] };
    const whole = await ask(request);
    const final = await client.chat.completions.stream(request).finalChatCompletion();
    const calls = final.choices[0].message.tool_calls;
    assert.deepEqual(calls.map((call) => call.function.name), ["get_weather", "get_time"]);
    for (const [index, call] of calls.entries()) {
      const { id, type, function: called } = whole.choices[0].message.tool_calls[index];
      assert.equal(call.type, type);
      assert.equal(call.id, id);
      assert.deepEqual(JSON.parse(call.function.arguments), JSON.parse(called.arguments));
    }
  });

  it("runs tools by itself", async () => {
    const asked = [];
    const tool = {
      type: "function",
      function: {
        ...weather.function,
        parse: JSON.parse,
        function: (args) => {
          asked.push(args);
          return "rain";
        },
      },
    };
    const runner = client.chat.completions.runTools({
      model: "demo/chat",
      messages: [{ role: "user", content: "get weather" }],
      tools: [tool],
      stream: true,
    });
    assert.match(await runner.finalContent(), /rain/);
    assert.equal(asked.length, 1);
  });

  it("answers in the shape of a schema", async () => {
    const City = z.object({ name: z.string(), people: z.number().int() });
    const response_format = zodResponseFormat(City, "city");
    const answer = await client.chat.completions.parse({ model: "demo/chat", messages, response_format });
    assert.equal(typeof answer.choices[0].message.parsed.name, "string");
    assert.ok(Number.isInteger(answer.choices[0].message.parsed.people));
  });

  it("completes text, streamed and plain", async () => {
    const request = { model: "demo/chat", prompt: "Once upon a time" };
    const whole = await client.completions.create(request);
    assert.equal(whole.object, "text_completion");
    const chunks = await collect(await client.completions.create({ ...request, stream: true }));
    assert.equal(chunks.map((chunk) => chunk.choices[0].text).join(""), whole.choices[0].text);
    const many = await client.completions.create({ ...request, prompt: ["a", "b"], n: 2 });
    assert.deepEqual(many.choices.map((choice) => choice.index), [0, 1, 2, 3]);
  });

  it("embeds in the SDK's default base64, the same numbers as floats", async () => {
    const request = { model: "demo/embed", input: ["one", "two", "three"], dimensions: 32 };
    const packed = await client.embeddings.create(request);
    const floats = await client.embeddings.create({ ...request, encoding_format: "float" });
    assert.deepEqual(packed.data.map((item) => item.index), [0, 1, 2]);
    for (const [index, item] of packed.data.entries()) {
      assert.equal(item.embedding.length, 32);
      assertClose(item.embedding, floats.data[index].embedding);
    }
    assert.ok(packed.usage.prompt_tokens > 0);
  });

  it("lists the catalogue and retrieves ids with slashes", async () => {
    const ids = (await collect(client.models.list())).map((model) => model.id);
    for (const id of ["demo/chat", "demo/with/slashes"]) {
      assert.ok(ids.includes(id));
      const model = await client.models.retrieve(id);
      assert.equal(model.id, id);
      assert.equal(model.owned_by, "demo");
      assert.equal(typeof model.created, "number");
    }
  });

  for (const [name, request, kind, status, code] of [
    ["a value out of range", { temperature: 3 }, OpenAI.BadRequestError, 400, "decimal_above_max_value"],
    ["an unknown model", { model: "no/such-model" }, OpenAI.NotFoundError, 404, "model_not_found"],
    ["a full context", { model: "demo/context" }, OpenAI.BadRequestError, 400, "context_length_exceeded"],
    ["a filtered prompt", { model: "demo/filter" }, OpenAI.BadRequestError, 400, "content_filter"],
    ["a limited upstream", { model: "demo/error-429" }, OpenAI.RateLimitError, 429, "upstream_rate_limited"],
    ["a failing upstream", { model: "demo/error-500" }, OpenAI.InternalServerError, 502, "upstream_error"],
    ["a full upstream", { model: "demo/error-503" }, OpenAI.InternalServerError, 503, "upstream_overloaded"],
    ["a wrong upstream key", { model: "demo/error-401" }, OpenAI.InternalServerError, 502, "upstream_auth_error"],
    ["a page of HTML", { model: "demo/garbage" }, OpenAI.InternalServerError, 502, "upstream_invalid_response"],
    ["a bug", { model: "demo/panic" }, OpenAI.InternalServerError, 500, "internal_error"],
  ]) {
    it(`raises the SDK's class for ${name}`, async () => {
      for (const stream of [false, true]) {
        const error = await ask({ ...request, stream }).then(assert.fail, (error) => error);
        assert.equal(error.constructor, kind);
        assert.equal(error.status, status);
        assert.equal(error.code, code);
        assert.match(error.requestID, /^req_\w{26}$/);
      }
    });
  }

  it("raises the SDK's classes for keys", async () => {
    const stranger = new OpenAI({ baseURL: gateway.baseURL, apiKey: "wrong", maxRetries: 0 });
    await assert.rejects(stranger.models.list(), (error) => {
      assert.equal(error.constructor, OpenAI.AuthenticationError);
      assert.equal(error.code, "invalid_api_key");
      return true;
    });
    if (!gateway.limitedKey) return;
    const limited = new OpenAI({ baseURL: gateway.baseURL, apiKey: gateway.limitedKey, maxRetries: 0 });
    await assert.rejects(limited.embeddings.create({ model: "demo/embed", input: "x" }), (error) => {
      assert.equal(error.constructor, OpenAI.PermissionDeniedError);
      assert.equal(error.code, "model_not_allowed");
      return true;
    });
    assert.deepEqual((await collect(limited.models.list())).map((model) => model.id), ["demo/chat"]);
  });

  it("does not try again what our headers forbid", async () => {
    let calls = 0;
    const counting = (...request) => {
      calls += 1;
      return fetch(...request);
    };
    const { baseURL, key: apiKey } = gateway;
    const patient = new OpenAI({ baseURL, apiKey, maxRetries: 2, fetch: counting });
    const call = (model) => patient.chat.completions.create({ model, messages }).then(assert.fail, (error) => error);
    const forbidden = await call("demo/error-401");
    assert.equal(forbidden.headers.get("x-should-retry"), "false");
    assert.equal(calls, 1);
    calls = 0;
    const allowed = await call("demo/error-500");
    assert.equal(allowed.headers.get("x-should-retry"), "true");
    assert.equal(calls, 3);
  });

  for (const model of ["demo/cut", "demo/truncate", "demo/error-mid"]) {
    it(`raises when the stream of ${model} breaks`, async () => {
      const stream = await ask({ model, stream: true });
      let text = "";
      const reading = (async () => {
        for await (const chunk of stream) {
          assert.equal(chunk.choices[0].finish_reason, null);
          text += chunk.choices[0].delta.content ?? "";
        }
      })();
      const error = await reading.then(assert.fail, (error) => error);
      assert.ok(error instanceof OpenAI.APIError, String(error));
      assert.equal(error.code, "upstream_stream_error");
      assert.ok(text.length > 0);
    });
  }

  it("falls back when told to", async () => {
    const routing = { fallback: ["demo/chat"] };
    const answer = await ask({ model: "demo/error-500", routing });
    assert.ok(answer.gateway.fallback_used);
    assert.equal(answer.gateway.model_used, "demo/chat");
    const chunks = await collect(await ask({ model: "demo/error-first", stream: true, routing }));
    assert.ok(chunks.at(-1).gateway.fallback_used);
  });
});
