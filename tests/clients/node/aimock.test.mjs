// aimock as the upstream of every dialect that it speaks: plain, streamed, with tools, reasoning, errors, limits and
// latency. Its journal shows how the mock understood each request.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { LLMock } from "@copilotkit/aimock";
import OpenAI from "openai";
import { collect, startGateway, weather } from "./gateway.mjs";

const TEXT = 'Grüße, 👍 "you"\n';
// Only letters that the mock does not cut in two.
const SLOW = "Grüße, lieber Mensch. ".repeat(4);
const ARGUMENTS = { city: "Zürich", days: 2 };
const time = { type: "function", function: { name: "get_time", parameters: { type: "object", properties: {} } } };
const tools = [weather, time];

/** The provider entry of each dialect, and a model. */
const DIALECTS = {
  openai: { provider: 'api = "openai"\nbase_url = "{url}/v1"\napi_key = "k"', model: "gpt-4o" },
  mistral: { provider: 'api = "mistral"\nbase_url = "{url}/v1"\napi_key = "k"', model: "mistral-small-2603" },
  azure: { provider: 'api = "azure"\nbase_url = "{url}"\napi_version = "2024-10-21"\napi_key = "k"', model: "gpt-4o" },
  anthropic: { provider: 'api = "anthropic"\nbase_url = "{url}"\napi_key = "k"', model: "claude-sonnet-4-6" },
  gemini: { provider: 'api = "gemini"\nbase_url = "{url}"\napi_key = "k"', model: "gemini-2.5-flash" },
  vertex: {
    provider: 'api = "vertex"\nbase_url = "{url}"\nproject = "p"\nregion = "europe-west4"\napi_key = "k"',
    model: "gemini-2.5-flash",
  },
  bedrock: {
    provider: 'api = "bedrock"\nbase_url = "{url}"\nregion = "eu-west-1"\napi_key = "k"',
    model: "anthropic.claude-sonnet-4-6",
  },
  cohere: { provider: 'api = "cohere"\nbase_url = "{url}"\napi_key = "k"', model: "command-a-03-2025" },
  ollama: { provider: 'api = "ollama"\nbase_url = "{url}"', model: "qwen3:8b" },
};

function config(url) {
  const parts = ["[routing]\nretries = 0\n[routing.breaker]\nfailures = 10000"];
  for (const [name, { provider, model }] of Object.entries(DIALECTS)) {
    parts.push(`[[providers]]\nname = "${name}"\n${provider.replace("{url}", url)}`);
    parts.push("timeouts = { first_token_ms = 2000 }");
    parts.push(`[[models]]\nid = "${name}/mock"\nupstream_model = "${model}"`);
    parts.push(`[[models]]\nid = "${name}/embed"\nupstream_model = "embed-v4.0"\ncategory = ["embedding"]`);
  }
  return parts.join("\n") + "\n";
}

/** The answers of the mock, by the user's last words. */
function fixtures(mock) {
  mock.on({ userMessage: "weather", hasToolResult: true }, { content: TEXT });
  mock.on({ userMessage: "both" }, {
    content: "I will look.",
    toolCalls: [
      { name: "get_weather", arguments: JSON.stringify(ARGUMENTS) },
      { name: "get_time", arguments: "{}" },
    ],
  });
  mock.on({ userMessage: "weather" }, { toolCalls: [{ name: "get_weather", arguments: JSON.stringify(ARGUMENTS) }] });
  mock.on({ userMessage: "think" }, { content: TEXT, reasoning: "Hm, let me see." });
  mock.on({ userMessage: "json" }, { content: JSON.stringify(ARGUMENTS) });
  for (const status of [400, 401, 404, 429, 500, 503, 529]) {
    const error = { error: { message: "No, not today.", type: "some_error" }, status, retryAfter: 7 };
    mock.on({ userMessage: `status ${status}` }, error);
  }
  mock.onEmbedding(/.*/, { embedding: [0.5, -0.25, 0.125] });
  mock.on({ userMessage: "halves" }, { content: "Up 👍 and down" }, { chunkSize: 4 });
  mock.on({ userMessage: "cut" }, { content: TEXT.repeat(40) }, { truncateAfterChunks: 3, chunkSize: 8 });
  mock.on({ userMessage: "slow" }, { content: SLOW }, { streamingProfile: { ttft: 150, tps: 80 }, chunkSize: 4 });
  mock.on({ userMessage: "hello" }, { content: TEXT }, { chunkSize: 3 });
}

describe("aimock behind the gateway", () => {
  let mock, gateway, client;
  before(async () => {
    mock = new LLMock({ port: 0, host: "127.0.0.1" });
    fixtures(mock);
    await mock.start();
    gateway = await startGateway(config(mock.url));
    client = new OpenAI({ baseURL: gateway.baseURL, apiKey: gateway.key, maxRetries: 0 });
  });
  after(async () => {
    await gateway.stop();
    await mock.stop();
  });

  const user = (text) => [{ role: "system", content: "Be kind." }, { role: "user", content: text }];
  /** The message, the end and the usage of an answer, plain or put together from its stream by the SDK. */
  async function ask(streamed, request) {
    if (!streamed) {
      const whole = await client.chat.completions.create(request);
      return { ...whole.choices[0], usage: whole.usage };
    }
    const stream = client.chat.completions.stream({ ...request, stream_options: { include_usage: true } });
    const whole = await stream.finalChatCompletion();
    return { ...whole.choices[0], usage: whole.usage };
  }
  const called = (message) =>
    (message.tool_calls ?? []).map((call) => [call.function.name, JSON.parse(call.function.arguments)]);

  // For other dialects the mock has no embeddings, or only those of a single text.
  for (const dialect of ["openai", "mistral", "azure", "cohere"]) {
    it(`${dialect}: embeds`, async () => {
      const request = { model: `${dialect}/embed`, input: ["One", "Grüße"], encoding_format: "float" };
      const answer = await client.embeddings.create(request);
      assert.deepEqual(answer.data.map(({ embedding }) => embedding), Array(2).fill([0.5, -0.25, 0.125]));
    });
  }

  for (const [dialect, { model: upstream }] of Object.entries(DIALECTS)) {
    const model = `${dialect}/mock`;
    for (const streamed of [false, true]) {
      const how = `${dialect}, ${streamed ? "streamed" : "plain"}`;

      it(`${how}: answers, with usage`, async () => {
        const { message, finish_reason, usage } = await ask(streamed, { model, messages: user("hello"), max_tokens: 50 });
        assert.equal(message.content, TEXT);
        assert.equal(finish_reason, "stop");
        assert.ok(usage.prompt_tokens >= 0 && usage.completion_tokens >= 0);
        assert.equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens);
        const { body } = mock.getLastRequest();
        assert.deepEqual(body.messages.map(({ role }) => role), ["system", "user"]);
        assert.equal(body.messages.at(-1).content, "hello");
        assert.ok(dialect === "azure" || body.model === upstream, body.model);
      });

      it(`${how}: calls tools and reads their results`, async () => {
        const request = { model, messages: user("what is the weather?"), tools };
        const first = await ask(streamed, request);
        assert.deepEqual(called(first.message), [["get_weather", ARGUMENTS]]);
        assert.equal(first.finish_reason, "tool_calls");
        const { role, content, tool_calls } = first.message;
        const calls = tool_calls.map(({ id, type, function: { name, arguments: given } }) => ({
          id,
          type,
          function: { name, arguments: given },
        }));
        const result = { role: "tool", tool_call_id: calls[0].id, content: "clear" };
        const messages = [...request.messages, { role, content, tool_calls: calls }, result];
        const second = await ask(streamed, { ...request, messages });
        assert.equal(second.message.content, TEXT);
        const seen = mock.getLastRequest().body.messages;
        assert.deepEqual(seen.map(({ role }) => role), ["system", "user", "assistant", "tool"]);
        assert.match(JSON.stringify(seen.at(-1).content), /clear/);
        assert.deepEqual(mock.getLastRequest().body.tools.map((tool) => tool.function.name), ["get_weather", "get_time"]);
      });

      it(`${how}: calls two tools at once`, async () => {
        const { message, finish_reason } = await ask(streamed, { model, messages: user("both"), tools });
        assert.deepEqual(called(message), [["get_weather", ARGUMENTS], ["get_time", {}]]);
        assert.equal(new Set(message.tool_calls.map(({ id }) => id)).size, 2);
        assert.equal(finish_reason, "tool_calls");
      });

      it(`${how}: thinks`, async () => {
        const request = { model, messages: user("think"), max_tokens: 4000 };
        if (!["openai", "azure"].includes(dialect)) request.reasoning_effort = "high";
        const { message } = await ask(streamed, request);
        // The mock turns the reasoning of Cohere into text and drops that of Ollama.
        if (dialect === "cohere") return assert.equal(message.content, "Hm, let me see." + TEXT);
        assert.equal(message.content, TEXT);
        assert.equal(message.reasoning_content, dialect === "ollama" ? undefined : "Hm, let me see.");
      });

      it(`${how}: answers with JSON`, async () => {
        const response_format = { type: "json_object" };
        const { message } = await ask(streamed, { model, messages: user("json"), response_format });
        assert.deepEqual(JSON.parse(message.content), ARGUMENTS);
      });

      for (const [status, code] of [
        [400, /^/],
        [401, /^upstream_auth_error$/],
        [429, /^upstream_rate_limited$/],
        [500, /^upstream_error$/],
        [503, /^upstream_overloaded$/],
      ]) {
        it(`${how}: an error of status ${status}`, async () => {
          const request = { model, messages: user(`status ${status}`), stream: streamed };
          const error = await client.chat.completions.create(request).then(assert.fail, (error) => error);
          assert.match(error.code, code);
          assert.equal(error.status, { 400: 400, 429: 429, 503: 503 }[status] ?? 502);
          if (status === 429) assert.equal(error.headers.get("retry-after"), "7");
        });
      }
    }

    it(`${dialect}: a stream that is cut is an error, never an end`, async () => {
      const finished = [];
      await assert.rejects(async () => {
        const stream = await client.chat.completions.create({ model, messages: user("cut"), stream: true });
        for await (const chunk of stream) finished.push(chunk.choices[0]?.finish_reason ?? null);
      });
      assert.ok(finished.every((reason) => reason === null), "it looked complete");
    });

    // The mock counts in UTF-16 units and cuts between the halves of a surrogate pair.
    it(`${dialect}: half a letter is no end of the stream`, async () => {
      const stream = await client.chat.completions.create({ model, messages: user("halves"), stream: true });
      const text = (await collect(stream)).map((chunk) => chunk.choices[0]?.delta.content ?? "").join("");
      assert.match(text, /^Up .+ and down$/);
    });

    it(`${dialect}: a slow stream arrives as it is said`, async () => {
      const begun = performance.now();
      const times = [];
      const stream = await client.chat.completions.create({ model, messages: user("slow"), stream: true });
      let text = "";
      for await (const chunk of stream) {
        const said = chunk.choices[0]?.delta.content;
        if (said) times.push(performance.now() - begun);
        text += said ?? "";
      }
      assert.equal(text, SLOW);
      assert.ok(times[0] >= 140, `${times[0]} ms`);
      assert.ok(times.at(-1) - times[0] >= 40, `${times.at(-1) - times[0]} ms`);
    });
  }
});
