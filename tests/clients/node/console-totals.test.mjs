// One query is behind every total: the rows of the log, the report, the tiles and the metrics say the same.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { connect } from "node:net";
import { after, before, describe, it } from "node:test";
import OpenAI from "openai";
import { OpenAIRealtimeWS } from "openai/realtime/ws";
import { startBrowser } from "./browser.mjs";
import { HOLDER, call, chat, openPage, signIn, startConsole } from "./console-browser.mjs";

/** A decimal number in femto-USD, so that sums are exact. */
function femtos(number) {
  const [, sign, whole, part = "", exponent = "0"] = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([-+]?\d+))?$/.exec(String(number));
  const scale = 15 + Number(exponent) - part.length;
  assert.ok(scale >= 0, `${number} is finer than a femto-dollar`);
  return BigInt(`${sign}${whole}${part}`) * 10n ** BigInt(scale);
}

/** The rows of the log, as soon as there are `count`: rows are written in batches. */
async function allRows(origin, count) {
  for (;;) {
    const { body } = await call(origin, "/admin/v1/requests?limit=100");
    if (body.data.length >= count) return body.data;
  }
}

/** Models of every category. The products of their prices have more digits than a float shows. */
const PRICED = [
  ["priced", "chat", "chat", "official_input_per_m = 0.37, official_output_per_m = 1.13"],
  ["vectors", "embed", "embedding", "official_input_per_m = 0.013, official_output_per_m = 0"],
  ["ranks", "rerank", "rerank", "official_per_search_unit = 0.00217"],
  ["paints", "images", "image", "official_per_image = 0.0137"],
  ["speaks", "speech", "speech", "official_per_character = 0.0000151"],
  ["hears", "transcribe", "transcription", "official_per_second = 0.000103"],
  ["judges", "moderation", "moderation", "official_per_query = 0.00031"],
  ["cut", "cut", "chat", "official_input_per_m = 0.37, official_output_per_m = 1.13"],
  ["broken", "error-500", "chat", "official_input_per_m = 0.37, official_output_per_m = 1.13"],
  ["slow", "slow", "chat", "official_input_per_m = 0.37, official_output_per_m = 1.13"],
  [
    "talks",
    "realtime",
    "realtime",
    "official_input_per_m = 4.1, official_output_per_m = 16.3, official_audio_input_per_m = 32.7, official_audio_output_per_m = 64.9",
  ],
]
  .map(([name, upstream, category, pricing]) => `
[[models]]
id = "demo/${name}"
upstream_model = "${upstream}"
category = ["${category}"]
pricing = { ${pricing} }
`)
  .join("");

/** A vendor's own API, behind a pass-through route. */
const vendor = (url) => `
[[passthrough]]
path = "/vendor"
target = "${url}"
cost_per_request = 0.00123
`;

/** Every surface, once at least; then the endings. Each call is one row. */
function surfaces(origin) {
  const post = (path, body) => call(origin, path, { key: HOLDER, body });
  const form = (path, more = {}) => {
    const body = new FormData();
    const fields = { model: "demo/hears", ...more };
    for (const [name, value] of Object.entries(fields)) body.append(name, value);
    return fetch(origin + path, { method: "POST", headers: { authorization: `Bearer ${HOLDER}` }, body });
  };
  const sound = () => new Blob([wav(16000)], { type: "audio/wav" });
  const picture = () => new Blob([Buffer.from(PIXEL, "base64")], { type: "image/png" });
  const input = { model: "demo/priced", input: "Hello" };
  const message = { model: "demo/priced", max_tokens: 50, messages: [{ role: "user", content: "Hi" }] };
  const contents = [{ role: "user", parts: [{ text: "Hi" }] }];
  return [
    ["chat", chat(origin, "demo/priced", "One")],
    ["chat", chat(origin, "demo/priced", "Two", { stream: true })],
    ["chat", chat(origin, "demo/priced", "Three", { cache: { enabled: true } })],
    ["completions", post("/v1/completions", { model: "demo/priced", prompt: ["a", "b"] })],
    ["responses", post("/v1/responses", input)],
    ["responses", post("/v1/responses", { ...input, stream: true })],
    ["messages", post("/v1/messages", message)],
    ["messages", post("/v1/messages", { ...message, stream: true })],
    ["gemini", post("/v1beta/models/demo/priced:generateContent", { contents })],
    ["embeddings", post("/v1/embeddings", { model: "demo/vectors", input: ["a", "b"] })],
    ["rerank", post("/v1/rerank", { model: "demo/ranks", query: "a", documents: ["a", "b", "c"] })],
    ["score", post("/v1/score", { model: "demo/ranks", text_1: "a", text_2: ["a", "b"] })],
    ["images", post("/v1/images/generations", { model: "demo/paints", prompt: "a cat", n: 3, size: "256x256" })],
    ["images", form("/v1/images/edits", { model: "demo/paints", prompt: "a hat", image: picture() })],
    ["speech", post("/v1/audio/speech", { model: "demo/speaks", input: "Grüße, 👍!", voice: "alloy" })],
    ["transcriptions", form("/v1/audio/transcriptions", { file: sound() })],
    ["translations", form("/v1/audio/translations", { file: sound() })],
    ["moderations", post("/v1/moderations", { model: "demo/judges", input: "a story" })],
    ["passthrough", post("/vendor/v1/things", { a: 1 })],
    ["realtime", talk(origin)],
    // A price that nobody knows, a torn stream, a failure, a fallback, and a client that leaves.
    ["chat", chat(origin, "demo/with/slashes", "Four")],
    ["chat", chat(origin, "demo/cut", "Five", { stream: true })],
    ["chat", chat(origin, "demo/broken", "Six")],
    ["chat", chat(origin, "demo/broken", "Seven", { routing: { fallback: ["demo/priced"] } })],
    ["chat", leave(origin)],
  ];
}

const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/** A WAV file of silence: 16 bits, one channel, 16,000 samples a second. */
function wav(samples) {
  const file = Buffer.alloc(44 + 2 * samples);
  file.write("RIFF", 0);
  file.writeUInt32LE(36 + 2 * samples, 4);
  file.write("WAVEfmt ", 8);
  for (const [at, value] of [[16, 16], [24, 16000], [28, 32000]]) file.writeUInt32LE(value, at);
  for (const [at, value] of [[20, 1], [22, 1], [32, 2], [34, 16]]) file.writeUInt16LE(value, at);
  file.write("data", 36);
  file.writeUInt32LE(2 * samples, 40);
  return file;
}

/** A realtime session with one response: one row. */
async function talk(origin) {
  const client = new OpenAI({ baseURL: `${origin}/v1`, apiKey: HOLDER });
  // The SDK always asks for `wss://`, and this gateway listens without TLS.
  const options = { createConnection: ({ host, port }) => connect({ host, port }) };
  const session = await OpenAIRealtimeWS.create(client, { model: "demo/talks", options });
  session.on("error", () => {});
  await new Promise((resolve) => session.on("session.created", resolve));
  const done = new Promise((resolve) => session.on("response.done", resolve));
  session.send({ type: "session.update", session: { type: "realtime", output_modalities: ["audio"] } });
  const content = [{ type: "input_text", text: "Hello there" }];
  session.send({ type: "conversation.item.create", item: { type: "message", role: "user", content } });
  session.send({ type: "response.create" });
  await done;
  session.close();
  await once(session.socket, "close");
}

/** A stream whose client leaves after its first piece. */
async function leave(origin) {
  const gone = new AbortController();
  const answer = await fetch(`${origin}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${HOLDER}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "demo/slow", messages: [{ role: "user", content: "Eight" }], stream: true }),
    signal: gone.signal,
  });
  await answer.body.getReader().read();
  gone.abort();
}

describe("the totals of the console", () => {
  let gateway, browser, upstream, expected;

  before(async () => {
    upstream = createServer((_, answer) => answer.setHeader("content-type", "application/json").end("{}"));
    await new Promise((resolve) => upstream.listen(0, "127.0.0.1", resolve));
    gateway = await startConsole(PRICED + vendor(`http://127.0.0.1:${upstream.address().port}`));
    browser = await startBrowser();
    const { origin } = gateway;
    const asked = surfaces(origin);
    await Promise.all(asked.map(([, answer]) => answer));
    await chat(origin, "demo/priced", "Three", { cache: { enabled: true } });
    expected = [...asked.map(([surface]) => surface), "chat"].sort();
  });
  after(async () => {
    await browser?.close();
    await gateway?.stop();
    upstream?.close();
  });

  it("are equal on the page, in the report, in the log and in the metrics, to the last digit", async () => {
    const { origin } = gateway;
    const rows = await allRows(origin, expected.length);
    assert.deepEqual(rows.map(({ surface }) => surface).sort(), expected);
    const statuses = new Set(rows.map(({ status }) => status));
    for (const status of ["ok", "client_closed_request", "upstream_error", "upstream_stream_error"]) assert.ok(statuses.has(status), `${status} of ${[...statuses]}`);
    const unpriced = rows.filter((row) => row.unpriced);
    assert.deepEqual(unpriced.map(({ model }) => model), ["demo/with/slashes"]);
    const free = rows.filter((row) => !row.cost_usd && !row.unpriced && row.status === "ok");
    assert.deepEqual(free.map(({ surface, cache_hit }) => [surface, cache_hit]), [["chat", true]]);
    const [usage, overview] = await Promise.all([
      call(origin, "/admin/v1/usage?by=surface&since=1h"),
      call(origin, "/admin/v1/overview?by=surface&since=1h"),
    ]);
    const total = usage.body.total;
    assert.equal(total.requests, rows.length);
    assert.ok(total.cost_usd > 0);
    assert.equal(femtos(total.cost_usd), rows.reduce((sum, row) => sum + femtos(row.cost_usd ?? 0), 0n));
    for (const member of Object.keys(total)) assert.equal(overview.body.total[member], total[member], member);
    const metrics = (await call(origin, "/metrics")).body;
    const sum = (name) => metrics.split("\n").filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `)).reduce((all, line) => all + Number(line.slice(line.lastIndexOf(" ") + 1)), 0);
    assert.ok(Math.abs(sum("gateway_cost_usd_total") - total.cost_usd) < 1e-15, `${sum("gateway_cost_usd_total")} and ${total.cost_usd}`);

    const { context, page, faults } = await openPage(browser, origin);
    await signIn(page, origin);
    const tile = (metric) => page.locator(`[data-metric="${metric}"]`).first();
    await tile("requests").getByText(String(total.requests), { exact: true }).waitFor();
    const spend = /\$\s?([\d.,]+(?:e-?\d+)?)/.exec(await tile("spend").textContent())[1].replaceAll(",", "");
    const digits = (spend.split(".")[1] ?? "").length;
    assert.equal(Number(spend).toFixed(digits), total.cost_usd.toFixed(digits));
    const tokens = total.total_tokens ?? total.prompt_tokens + total.completion_tokens;
    assert.ok((await tile("tokens").textContent()).replaceAll(/[,\s]/g, "").includes(String(tokens)));
    assert.deepEqual(faults, []);
    await context.close();
  });
});
