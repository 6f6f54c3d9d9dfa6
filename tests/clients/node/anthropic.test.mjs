// Anthropic's own SDK for Node, as its users use it.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, describe, it } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import { betaZodTool } from "@anthropic-ai/sdk/helpers/beta/zod";
import { zodOutputFormat } from "@anthropic-ai/sdk/helpers/zod";
import { z } from "zod";
import { collect, startGateway, weather as openaiWeather } from "./gateway.mjs";

const messages = [{ role: "user", content: "Hello there, how are you today?" }];
// Claude Code compacts the conversation when it reads these words.
const TOO_LONG = /^prompt is too long: \d+ tokens > \d+ maximum$/;
const { name, description, parameters } = openaiWeather.function;
const weather = { name, description, input_schema: parameters };

describe("Anthropic's SDK for Node", () => {
  let gateway, client;
  before(async () => {
    gateway = await startGateway();
    client = connect({ apiKey: gateway.key });
  });
  after(() => gateway.stop());

  // The SDK adds `/v1` by itself. It would send the credentials that it finds in the environment.
  const connect = (options) =>
    new Anthropic({
      baseURL: gateway.baseURL.replace(/\/v1$/, ""),
      apiKey: null,
      authToken: null,
      maxRetries: 0,
      ...options,
    });
  const ask = (request, options) =>
    client.messages.create({ model: "demo/chat", max_tokens: 1000, messages, ...request }, options);
  const textOf = (message) => message.content.map((block) => (block.type === "text" ? block.text : "")).join("");

  it("answers with usage, cost and the gateway object", async () => {
    const answer = await ask({});
    assert.equal(answer.type, "message");
    assert.equal(answer.role, "assistant");
    assert.match(answer.id, /^msg_/);
    assert.deepEqual(answer.content.map((block) => block.type), ["text"]);
    assert.match(textOf(answer), /how are you today\?/);
    assert.equal(answer.stop_reason, "end_turn");
    assert.equal(answer.stop_sequence, null);
    assert.ok(answer.usage.input_tokens > 0 && answer.usage.output_tokens > 0);
    assert.equal(answer.gateway.model_used, "demo/chat");
    assert.equal(answer._request_id, answer.gateway.request_id);
    const { data, response, request_id } = await ask({}).withResponse();
    assert.equal(response.headers.get("x-gateway-model"), "demo/chat");
    assert.equal(data.gateway.request_id, request_id);
  });

  it("takes the key as a bearer token, too", async () => {
    const bearer = connect({ authToken: gateway.key });
    const answer = await bearer.messages.create({ model: "demo/chat", max_tokens: 10, messages });
    assert.equal(answer.role, "assistant");
  });

  it("reads a system prompt, blocks and earlier turns", async () => {
    const text = (said) => [{ type: "text", text: said, cache_control: { type: "ephemeral" } }];
    const turns = [
      { role: "user", content: text("First question") },
      { role: "assistant", content: text("First answer") },
      { role: "user", content: text("Second question") },
    ];
    const answer = await ask({ system: text("Be brief."), messages: turns });
    assert.match(textOf(answer), /Second question/);
  });

  it("says that a limit cut the answer", async () => {
    const answer = await ask({ max_tokens: 2 });
    assert.equal(answer.stop_reason, "max_tokens");
    assert.equal(answer.usage.output_tokens, 2);
  });

  it("stops before a stop sequence", async () => {
    const whole = textOf(await ask({}));
    const answer = await ask({ stop_sequences: ["how"] });
    assert.equal(textOf(answer), whole.slice(0, whole.indexOf("how")));
  });

  it("streams what it would have answered, one block at a time", async () => {
    const whole = await ask({});
    const events = await collect(await ask({ stream: true }));
    assert.equal(events[0].type, "message_start");
    assert.deepEqual(events[0].message.content, []);
    assert.equal(events[0].message.stop_reason, null);
    assert.ok(events[0].message.usage.input_tokens > 0);
    assert.equal(events[1].type, "content_block_start");
    const deltas = events.filter((event) => event.type === "content_block_delta");
    assert.ok(deltas.length > 1);
    assert.deepEqual(new Set(deltas.map((event) => event.index)), new Set([0]));
    assert.equal(deltas.map((event) => event.delta.text).join(""), textOf(whole));
    assert.deepEqual(events.slice(-3).map((event) => event.type), ["content_block_stop", "message_delta", "message_stop"]);
    const last = events.at(-2);
    assert.equal(last.delta.stop_reason, "end_turn");
    assert.equal(last.usage.input_tokens, whole.usage.input_tokens);
    assert.equal(last.usage.output_tokens, whole.usage.output_tokens);
  });

  it("feeds the stream helper", async () => {
    const whole = await ask({});
    const stream = client.messages.stream({ model: "demo/chat", max_tokens: 1000, messages });
    const pieces = [];
    stream.on("text", (piece) => pieces.push(piece));
    const final = await stream.finalMessage();
    assert.equal(pieces.join(""), textOf(whole));
    assert.equal(textOf(final), textOf(whole));
    assert.equal(final.stop_reason, whole.stop_reason);
    assert.equal(final.usage.output_tokens, whole.usage.output_tokens);
    assert.match(stream.request_id, /^req_\w{26}$/);
  });

  it("can be cancelled in the middle of a stream", async () => {
    const stream = await ask({ model: "demo/stall", stream: true });
    for await (const event of stream) {
      if (event.type === "content_block_delta") break; // it would be silent from here on
    }
    assert.ok(stream.controller.signal.aborted);
  });

  it("holds a conversation with a tool", async () => {
    const first = await ask({ tools: [weather], tool_choice: { type: "tool", name: "get_weather" } });
    assert.equal(first.stop_reason, "tool_use");
    const call = first.content.find((block) => block.type === "tool_use");
    assert.equal(call.name, "get_weather");
    assert.deepEqual(Object.keys(call.input).sort(), ["city", "days"]);
    const result = { type: "tool_result", tool_use_id: call.id, content: [{ type: "text", text: "sunny" }] };
    const turns = [...messages, { role: "assistant", content: first.content }, { role: "user", content: [result] }];
    const last = await ask({ messages: turns, tools: [weather] });
    assert.match(textOf(last), /sunny/);
    assert.equal(last.stop_reason, "end_turn");
  });

  it("streams tool calls that the SDK puts together again", async () => {
    const clock = { name: "get_time", input_schema: { type: "object" } };
    const said = [{ role: "user", content: "get weather and get time" }];
    const request = { model: "demo/chat", max_tokens: 1000, messages: said, tools: [weather, clock] };
    const whole = await client.messages.create(request);
    const final = await client.messages.stream(request).finalMessage();
    const calls = (message) => message.content.filter((block) => block.type === "tool_use");
    const bare = ({ id, name, input }) => ({ id, name, input });
    assert.deepEqual(calls(whole).map((call) => call.name), ["get_weather", "get_time"]);
    assert.deepEqual(calls(final).map(bare), calls(whole).map(bare));
    assert.equal(new Set(calls(final).map((call) => call.id)).size, 2);
    assert.equal(final.stop_reason, "tool_use");

    const open = [];
    for (const event of await collect(await client.messages.create({ ...request, stream: true }))) {
      if (event.type === "content_block_start") open.push(event.index);
      if (event.type === "content_block_delta") assert.deepEqual(open, [event.index]);
      if (event.type === "content_block_stop") assert.equal(open.pop(), event.index);
      assert.ok(open.length <= 1);
    }
  });

  const asked = [];
  const runTools = async (settings) => {
    asked.length = 0;
    const tool = betaZodTool({
      name: "get_weather",
      description: "The weather of a city",
      inputSchema: z.object({ city: z.string(), days: z.number().int() }),
      run: (input) => {
        asked.push(input);
        return "rain";
      },
    });
    const runner = client.beta.messages.toolRunner({
      model: "demo/chat",
      max_tokens: 1000,
      messages: [{ role: "user", content: "get weather" }],
      tools: [tool],
      ...settings,
    });
    assert.match(textOf(await runner.runUntilDone()), /rain/);
    assert.equal(asked.length, 1);
  };

  it("runs tools by itself", async () => {
    for (const stream of [false, true]) await runTools({ stream, thread: false });
  });

  // Since 1.2 the SDK sends only the new messages of each turn, unless the server refuses to hold the conversation.
  it("runs tools by itself after a refused message thread", async () => {
    for (const stream of [false, true]) await runTools({ stream });
  });

  it("refuses a message thread that nothing behind it can hold", async () => {
    const thread = client.beta.messages.thread({ model: "demo/chat", max_tokens: 1000 });
    const error = await thread.send(messages).then(assert.fail, (error) => error);
    assert.ok(error instanceof Anthropic.BadRequestError);
    assert.equal(error.error.error.details.error_code, "thread_unsupported_request");
  });

  it("answers in the shape of a schema", async () => {
    const City = z.object({ name: z.string(), people: z.number().int() });
    const answer = await client.messages.parse({
      model: "demo/chat",
      max_tokens: 1000,
      messages,
      output_config: { format: zodOutputFormat(City) },
    });
    assert.equal(typeof answer.parsed_output.name, "string");
    assert.ok(Number.isInteger(answer.parsed_output.people));
  });

  it("counts tokens, and says that it estimates", async () => {
    const count = (request) => client.messages.countTokens({ model: "demo/chat", messages, ...request }).withResponse();
    const { data, response } = await count({});
    assert.equal(response.headers.get("x-gateway-token-count"), "estimate");
    // A stream begins with the same figure.
    const [start] = await collect(await ask({ stream: true }));
    assert.equal(data.input_tokens, start.message.usage.input_tokens);
    const system = (await count({ system: "Be brief." })).data.input_tokens;
    const both = (await count({ system: "Be brief.", tools: [weather] })).data.input_tokens;
    assert.ok(data.input_tokens < system && system < both);
  });

  it("lists the catalogue and retrieves ids with slashes", async () => {
    const models = await collect(client.models.list({ limit: 3 })); // more than one page
    const ids = models.map((model) => model.id);
    assert.equal(new Set(ids).size, ids.length);
    for (const id of ["demo/chat", "demo/with/slashes"]) {
      assert.ok(ids.includes(id), id);
      const model = await client.models.retrieve(id);
      assert.equal(model.id, id);
      assert.equal(model.type, "model");
      assert.equal(typeof model.display_name, "string");
      assert.ok(!Number.isNaN(Date.parse(model.created_at)));
    }
  });

  for (const [what, request, kind, status, type, said] of [
    ["a value out of range", { temperature: 3 }, Anthropic.BadRequestError, 400, "invalid_request_error", /temperature/],
    ["no messages", { messages: [] }, Anthropic.BadRequestError, 400, "invalid_request_error", /messages/],
    ["an unknown model", { model: "no/such-model" }, Anthropic.NotFoundError, 404, "not_found_error", /no\/such-model/],
    ["a full context", { model: "demo/context" }, Anthropic.BadRequestError, 400, "invalid_request_error", TOO_LONG],
    ["a filtered prompt", { model: "demo/filter" }, Anthropic.BadRequestError, 400, "invalid_request_error", /filter/],
    ["a limited upstream", { model: "demo/error-429" }, Anthropic.RateLimitError, 429, "rate_limit_error", /limiting/],
    ["a failing upstream", { model: "demo/error-500" }, Anthropic.InternalServerError, 502, "api_error", /500/],
    ["a full upstream", { model: "demo/error-503" }, Anthropic.OverloadedError, 529, "overloaded_error", /overloaded/],
    ["a wrong upstream key", { model: "demo/error-401" }, Anthropic.InternalServerError, 502, "api_error", /credentials/],
    ["a page of HTML", { model: "demo/garbage" }, Anthropic.InternalServerError, 502, "api_error", /understood/],
    ["a bug", { model: "demo/panic" }, Anthropic.InternalServerError, 500, "api_error", /failed/],
  ]) {
    it(`raises the SDK's class for ${what}`, async () => {
      for (const stream of [false, true]) {
        const error = await ask({ ...request, stream }).then(assert.fail, (error) => error);
        assert.equal(error.constructor, kind);
        assert.equal(error.status, status);
        assert.equal(error.error.type, "error");
        assert.equal(error.type, type);
        assert.match(error.error.error.message, said);
        assert.match(error.requestID, /^req_\w{26}$/);
        assert.equal(error.error.request_id, error.requestID);
      }
    });
  }

  it("raises the SDK's classes for keys", async () => {
    for (const stranger of [connect({ apiKey: "wrong" }), connect({ authToken: "wrong" })]) {
      for (const call of [
        () => stranger.messages.create({ model: "demo/chat", max_tokens: 1, messages }),
        () => stranger.messages.countTokens({ model: "demo/chat", messages }),
        () => stranger.models.list(),
      ]) {
        const error = await call().then(assert.fail, (error) => error);
        assert.equal(error.constructor, Anthropic.AuthenticationError);
        assert.equal(error.type, "authentication_error");
      }
    }
    if (!gateway.limitedKey) return;
    const limited = connect({ apiKey: gateway.limitedKey });
    const forbidden = limited.messages.create({ model: "demo/with/slashes", max_tokens: 1, messages });
    const error = await forbidden.then(assert.fail, (error) => error);
    assert.equal(error.constructor, Anthropic.PermissionDeniedError);
    assert.equal(error.type, "permission_error");
  });

  it("does not try again what our headers forbid", async () => {
    let calls = 0;
    const counting = (...request) => {
      calls += 1;
      return fetch(...request);
    };
    const patient = connect({ apiKey: gateway.key, maxRetries: 2, fetch: counting });
    const call = (model) =>
      patient.messages.create({ model, max_tokens: 10, messages }).then(assert.fail, (error) => error);
    assert.equal((await call("demo/error-401")).status, 502);
    assert.equal(calls, 1);
    calls = 0;
    assert.equal((await call("demo/error-500")).status, 502);
    assert.equal(calls, 3);
    calls = 0;
    const stranger = connect({ apiKey: "wrong", maxRetries: 2, fetch: counting });
    const refused = await stranger.messages.create({ model: "demo/chat", max_tokens: 10, messages }).catch((error) => error);
    assert.equal(refused.status, 401);
    assert.equal(refused.headers.get("x-should-retry"), "false");
    assert.equal(calls, 1);
  });

  for (const model of ["demo/cut", "demo/truncate", "demo/error-mid"]) {
    it(`raises when the stream of ${model} breaks`, async () => {
      let text = "";
      const reading = (async () => {
        for await (const event of await ask({ model, stream: true })) {
          assert.notEqual(event.type, "message_stop");
          text += event.delta?.text ?? "";
        }
      })();
      const error = await reading.then(assert.fail, (error) => error);
      assert.ok(error instanceof Anthropic.APIError, String(error));
      assert.equal(error.type, "api_error");
      assert.ok(text.length > 0);
      const helper = client.messages.stream({ model, max_tokens: 1000, messages });
      await assert.rejects(helper.finalMessage(), Anthropic.APIError);
    });
  }

  it("falls back when told to", async () => {
    const routing = { fallback: ["demo/chat"] };
    const answer = await ask({ model: "demo/error-500", routing });
    assert.ok(answer.gateway.fallback_used);
    assert.equal(answer.gateway.model_used, "demo/chat");
  });
});

// An upstream that keeps threads as Anthropic does: a `continue` names the last answer, brings only what is new, and repeats
// neither tools nor the system prompt.
const threadKeeper = async (steps) => {
  const threads = new Map();
  const requests = [];
  const answer = (body) => {
    const { thread } = body;
    let earlier = [];
    if (thread?.type === "continue") {
      earlier = threads.get(thread.previous_message_id);
      threads.delete(thread.previous_message_id);
      if (!earlier) return [404, { type: "error", error: { type: "not_found_error", message: "No thread.", details: { error_code: "thread_not_found" } } }];
      assert.equal(body.tools, undefined);
    }
    const history = [...earlier, ...body.messages];
    const results = history.filter((turn) => JSON.stringify(turn).includes("tool_result")).length;
    const called = { type: "tool_use", id: `toolu_${results}`, name: "get_weather", input: { city: "Oslo", days: results } };
    const content = results < steps ? [called] : [{ type: "text", text: "rain" }];
    const id = `msg_${requests.length}`;
    threads.set(id, [...history, { role: "assistant", content }]);
    const stop_reason = results < steps ? "tool_use" : "end_turn";
    const usage = { input_tokens: 9, output_tokens: 6 };
    return [200, { id, type: "message", role: "assistant", model: "claude-opus-4-5", content, stop_reason, stop_sequence: null, usage }];
  };
  const events = (message) => {
    const list = [{ type: "message_start", message: { ...message, content: [], stop_reason: null } }];
    message.content.forEach((block, index) => {
      const isCall = block.type === "tool_use";
      list.push({ type: "content_block_start", index, content_block: isCall ? { ...block, input: {} } : { type: "text", text: "" } });
      const delta = isCall ? { type: "input_json_delta", partial_json: JSON.stringify(block.input) } : { type: "text_delta", text: block.text };
      list.push({ type: "content_block_delta", index, delta }, { type: "content_block_stop", index });
    });
    const { stop_reason, usage } = message;
    list.push({ type: "message_delta", delta: { stop_reason, stop_sequence: null }, usage }, { type: "message_stop" });
    return list.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join("");
  };
  const server = createServer(async (request, response) => {
    const pieces = [];
    for await (const piece of request) pieces.push(piece);
    const body = JSON.parse(Buffer.concat(pieces));
    requests.push(body);
    const [status, document] = answer(body);
    const isStream = body.stream && status === 200;
    response.writeHead(status, { "content-type": isStream ? "text/event-stream" : "application/json" });
    response.end(isStream ? events(document) : JSON.stringify(document));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${server.address().port}`, requests, stop: () => server.close() };
};

describe("The tool runner of Anthropic's SDK on a Claude provider", () => {
  for (const stream of [false, true]) {
    it(`sends only what is new on a message thread, stream=${stream}`, async () => {
      const upstream = await threadKeeper(6);
      const gateway = await startGateway(
        `\n[[providers]]\nname = "claude"\napi = "anthropic"\nbase_url = "${upstream.url}"\napi_key = "upstream-key"\n` +
          `[[models]]\nid = "claude/claude-opus-4-5"\n`,
      );
      try {
        const client = new Anthropic({ baseURL: gateway.baseURL.replace(/\/v1$/, ""), apiKey: gateway.key, maxRetries: 0 });
        const tool = betaZodTool({
          name: "get_weather",
          description: "The weather of a city",
          inputSchema: z.object({ city: z.string(), days: z.number().int() }),
          run: () => "rain",
        });
        const runner = client.beta.messages.toolRunner({
          model: "claude/claude-opus-4-5",
          max_tokens: 1000,
          messages: [{ role: "user", content: "get weather" }],
          tools: [tool],
          stream,
        });
        const last = await runner.runUntilDone();
        assert.equal(last.content[0].text, "rain");
        assert.deepEqual(upstream.requests.map((body) => body.thread.type), ["create", ...Array(6).fill("continue")]);
        assert.deepEqual(upstream.requests.map((body) => body.messages.length), Array(7).fill(1));
      } finally {
        await gateway.stop();
        upstream.stop();
      }
    });
  }
});
