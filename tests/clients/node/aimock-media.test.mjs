// aimock as the upstream of images, sound, moderations, rankings, responses and WebSockets. Its journal shows the requests that it understood.

import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { after, before, describe, it } from "node:test";
import { GoogleGenAI } from "@google/genai";
import { LLMock } from "@copilotkit/aimock";
import OpenAI, { toFile } from "openai";
import { OpenAIRealtimeWS } from "openai/realtime/ws";
import { collect, startGateway } from "./gateway.mjs";

const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const SOUND = Buffer.from("ID3 no real music, but bytes that must arrive as they are: Grüße");
const TEXT = "Grüße, lieber Mensch.";
const RANKS = [
  { index: 2, relevance_score: 0.9 },
  { index: 0, relevance_score: 0.25 },
];

const CONFIG = `
[routing]
retries = 0

[[providers]]
name = "openai"
base_url = "{url}/v1"
api = "openai"
api_key = "k"

[[providers]]
name = "cohere"
base_url = "{url}"
api = "cohere"
api_key = "k"

[[providers]]
name = "gemini"
base_url = "{url}"
api = "gemini"
api_key = "k"

[[models]]
id = "openai/chat"
upstream_model = "gpt-4o"
category = ["chat"]
pricing = { official_input_per_m = 2.5, official_output_per_m = 10.0, currency = "USD" }

[[models]]
id = "openai/image"
upstream_model = "gpt-image-1"
category = ["image"]
pricing = { official_per_image = 0.04, currency = "USD" }

[[models]]
id = "openai/speech"
upstream_model = "tts-1"
category = ["speech"]
pricing = { official_per_character = 0.000015, currency = "USD" }

[[models]]
id = "openai/transcribe"
upstream_model = "whisper-1"
category = ["transcription"]
pricing = { official_per_second = 0.0001, currency = "USD" }

[[models]]
id = "openai/moderation"
upstream_model = "omni-moderation-latest"
category = ["moderation"]
pricing = { official_per_query = 0.0, currency = "USD" }

[[models]]
id = "openai/realtime"
upstream_model = "gpt-realtime"
category = ["realtime"]

[[models]]
id = "cohere/rerank"
upstream_model = "rerank-v3.5"
category = ["rerank"]
pricing = { official_per_search_unit = 0.002, currency = "USD" }

[[models]]
id = "gemini/chat"
upstream_model = "gemini-2.5-flash"
category = ["chat"]
`;

function fixtures(mock) {
  const image = { image: { b64Json: PIXEL, revisedPrompt: "a grey cat" } };
  mock.onImage("a cat", image);
  mock.onSpeech("Say it", { audio: SOUND.toString("base64"), format: "mp3" });
  const segments = [{ id: 0, start: 0, end: 2.5, text: TEXT }];
  mock.onTranscription({ transcription: { text: TEXT, language: "german", duration: 2.5, segments } });
  mock.onTranslation({ transcription: { text: "Greetings, dear human.", language: "english", duration: 2.5 } });
  mock.onModerate("bad", { flagged: true, categories: { violence: true }, category_scores: { violence: 0.98 } });
  mock.onRerank("capital", RANKS);
  mock.on({ userMessage: "hello" }, { content: TEXT }, { chunkSize: 3 });
}

describe("aimock's media behind the gateway", () => {
  let mock, gateway, client;
  before(async () => {
    mock = new LLMock({ port: 0, host: "127.0.0.1" });
    fixtures(mock);
    await mock.start();
    gateway = await startGateway(CONFIG.replaceAll("{url}", mock.url));
    client = new OpenAI({ baseURL: gateway.baseURL, apiKey: gateway.key, maxRetries: 0 });
  });
  after(async () => {
    await gateway.stop();
    await mock.stop();
  });

  const sound = () => toFile(SOUND, "words.mp3", { type: "audio/mpeg" });
  const picture = () => toFile(Buffer.from(PIXEL, "base64"), "cat.png", { type: "image/png" });
  const last = () => mock.getLastRequest();

  it("makes an image", async () => {
    const { data, response } = await client.images.generate({ model: "openai/image", prompt: "a cat" }).withResponse();
    assert.deepEqual(data.data.map(({ b64_json, revised_prompt }) => [b64_json, revised_prompt]), [[PIXEL, "a grey cat"]]);
    assert.equal(response.headers.get("x-gateway-cost-usd"), "0.04");
    assert.deepEqual([last().path, last().body.model], ["/v1/images/generations", "gpt-image-1"]);
  });

  it("edits an image", async () => {
    const made = await client.images.edit({ model: "openai/image", prompt: "a cat", image: await picture() });
    assert.equal(made.data[0].b64_json, PIXEL);
    assert.equal(last().path, "/v1/images/edits");
  });

  it("speaks", async () => {
    const request = { model: "openai/speech", input: "Say it", voice: "alloy" };
    const { data, response } = await client.audio.speech.create(request).withResponse();
    assert.deepEqual(Buffer.from(await data.arrayBuffer()), SOUND);
    assert.equal(response.headers.get("content-type"), "audio/mpeg");
    assert.deepEqual([last().path, last().body.model], ["/v1/audio/speech", "tts-1"]);
  });

  it("transcribes, short and with segments", async () => {
    const request = { model: "openai/transcribe", file: await sound() };
    assert.equal((await client.audio.transcriptions.create(request)).text, TEXT);
    const long = { ...request, file: await sound(), response_format: "verbose_json" };
    const { data, response } = await client.audio.transcriptions.create(long).withResponse();
    assert.deepEqual([data.text, data.duration, data.segments.length], [TEXT, 2.5, 1]);
    assert.equal(response.headers.get("x-gateway-cost-usd"), "0.00025");
    assert.equal(last().path, "/v1/audio/transcriptions");
  });

  it("translates", async () => {
    const told = await client.audio.translations.create({ model: "openai/transcribe", file: await sound() });
    assert.equal(told.text, "Greetings, dear human.");
    assert.equal(last().path, "/v1/audio/translations");
  });

  it("moderates", async () => {
    const told = await client.moderations.create({ model: "openai/moderation", input: "bad words" });
    const [{ flagged, categories, category_scores }] = told.results;
    assert.deepEqual([flagged, categories.violence, category_scores.violence], [true, true, 0.98]);
  });

  it("ranks", async () => {
    const body = JSON.stringify({ model: "cohere/rerank", query: "the capital", documents: ["a", "b", "c"], top_n: 2 });
    const headers = { authorization: `Bearer ${gateway.key}`, "content-type": "application/json" };
    const answer = await fetch(`${gateway.baseURL}/rerank`, { method: "POST", headers, body });
    const { results } = await answer.json();
    assert.deepEqual(results.map(({ index, relevance_score }) => ({ index, relevance_score })), RANKS);
    assert.equal(answer.headers.get("x-gateway-cost-usd"), "0.002");
  });

  it("responds, complete and as a stream", async () => {
    const request = { model: "openai/chat", input: "hello" };
    assert.equal((await client.responses.create(request)).output_text, TEXT);
    const events = await collect(await client.responses.create({ ...request, stream: true }));
    const deltas = events.filter(({ type }) => type === "response.output_text.delta");
    assert.equal(deltas.map(({ delta }) => delta).join(""), TEXT);
    assert.equal(events.at(-1).type, "response.completed");
  });

  it("answers Google's SDK", async () => {
    const google = new GoogleGenAI({ apiKey: gateway.key, httpOptions: { baseUrl: gateway.baseURL.replace(/\/v1$/, "") } });
    for (const model of ["gemini/chat", "openai/chat"]) {
      const answer = await google.models.generateContent({ model, contents: "hello" });
      assert.equal(answer.text, TEXT);
      const pieces = await collect(await google.models.generateContentStream({ model, contents: "hello" }));
      assert.equal(pieces.map(({ text }) => text ?? "").join(""), TEXT);
    }
  });

  it("holds a realtime session", async () => {
    // The SDK always asks for `wss://`, and this gateway listens without TLS.
    const options = { createConnection: ({ host, port }) => connect({ host, port }) };
    const session = await OpenAIRealtimeWS.create(client, { model: "openai/realtime", options });
    const text = [];
    // An error event is thrown unless somebody listens.
    session.on("error", () => {});
    await new Promise((resolve) => session.on("session.created", resolve));
    session.on("response.output_text.delta", ({ delta }) => text.push(delta));
    const done = new Promise((resolve) => session.on("response.done", resolve));
    const content = [{ type: "input_text", text: "hello" }];
    session.send({ type: "session.update", session: { type: "realtime", output_modalities: ["text"] } });
    session.send({ type: "conversation.item.create", item: { type: "message", role: "user", content } });
    session.send({ type: "response.create" });
    assert.equal((await done).response.status, "completed");
    assert.equal(text.join(""), TEXT);
    session.close();
    await once(session.socket, "close");
  });
});
