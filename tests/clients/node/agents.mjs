// What the tests of coding agents share: an upstream that follows a script, a proxy that refuses, a home and a
// workspace of their own, and a gateway in front of the upstream.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync } from "node:fs";
import { createServer, request as ask } from "node:http";
import { createRequire } from "node:module";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { startGateway } from "./gateway.mjs";

const ADMIN = "sk-client-test-admin";
const MODEL = "scripted/agent";
const PROXIES = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"];
/** Beyond it an agent hangs. */
const RUN_MS = 100_000;
/** The same with a real model server, which reads long prompts slowly. */
const SLOW_RUN_MS = 400_000;
const USAGE = { prompt_tokens: 1000, completion_tokens: 50, total_tokens: 1050 };

export const gatewayBinary =
  process.env.MODEL_GATEWAY_BIN ??
  realpathSync(fileURLToPath(new URL("../../../target/debug/model-gateway", import.meta.url)));

/** The file of an npm package: the agents' programs come as packages of their platform. */
function packaged(name, ...path) {
  const manifest = createRequire(import.meta.url).resolve(`${name}/package.json`);
  const file = join(dirname(manifest), ...path);
  assert.ok(existsSync(file), `${file} is missing: npm has left out an optional dependency`);
  return file;
}

const PLATFORM = `${process.platform}-${process.arch}`;
const MACHINES = {
  "linux-x64": "x86_64-unknown-linux-musl",
  "linux-arm64": "aarch64-unknown-linux-musl",
  "darwin-x64": "x86_64-apple-darwin",
  "darwin-arm64": "aarch64-apple-darwin",
};

/** The program of Claude Code. */
export const claude = () => packaged(`@anthropic-ai/claude-code-${PLATFORM}`, "claude");

/** The program of Codex. */
export const codex = () => packaged(`@openai/codex-${PLATFORM}`, "vendor", MACHINES[PLATFORM], "bin", "codex");

export async function listen(server) {
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  server.unref(); // a test that fails early does not hang
  const stop = () => {
    const closed = new Promise((resolve) => server.close(resolve));
    server.closeAllConnections();
    return closed;
  };
  return { url: `http://127.0.0.1:${server.address().port}`, stop };
}

/**
 * A provider of OpenAI's chat API that streams what `script(request)` says: `{ text, calls: [[name, arguments]] }`.
 * `requests` has all that it was asked, and `faults` what it could not answer. A test may set another `script`.
 */
async function scriptedUpstream(script) {
  const upstream = { script, requests: [], faults: [] };
  const { requests, faults } = upstream;
  let called = 0;
  const server = createServer(async (incoming, response) => {
    const parts = [];
    for await (const part of incoming) parts.push(part);
    if (incoming.method !== "POST" || incoming.url !== "/v1/chat/completions") {
      faults.push(`${incoming.method} ${incoming.url}`);
      return response.writeHead(404).end();
    }
    const request = JSON.parse(Buffer.concat(parts));
    requests.push(request);
    let answer;
    try {
      answer = upstream.script(request);
    } catch (error) {
      faults.push(String(error));
      answer = { text: `The script fails: ${error.message}` };
    }
    const call = ([name, args]) => ({ id: `call_${++called}`, name, args: JSON.stringify(args) });
    const calls = (answer.calls ?? []).map(call);
    if (!request.stream) return plain(response, request, answer, calls);
    response.writeHead(200, { "content-type": "text/event-stream" });
    const chunk = (delta, finish_reason = null) => ({ index: 0, delta, finish_reason });
    const send = (choices, more) => {
      const head = { id: "chatcmpl-1", object: "chat.completion.chunk", created: 1, model: request.model };
      response.write(`data: ${JSON.stringify({ ...head, choices, ...more })}\n\n`);
    };
    send([chunk({ role: "assistant", content: "" })]);
    for (const text of answer.text?.match(/.{1,7}/gsu) ?? []) send([chunk({ content: text })]);
    for (const [index, { id, name, args }] of calls.entries()) {
      send([chunk({ tool_calls: [{ index, id, type: "function", function: { name, arguments: "" } }] })]);
      for (const fragment of args.match(/.{1,9}/gsu)) {
        send([chunk({ tool_calls: [{ index, function: { arguments: fragment } }] })]);
      }
    }
    send([chunk({}, calls.length ? "tool_calls" : "stop")]);
    send([], { usage: USAGE });
    response.end("data: [DONE]\n\n");
  });
  return Object.assign(upstream, await listen(server));
}

function plain(response, request, answer, calls) {
  const tool_calls = calls.map(({ id, name, args }) => ({ id, type: "function", function: { name, arguments: args } }));
  const message = { role: "assistant", content: answer.text ?? null, ...(calls.length && { tool_calls }) };
  const choices = [{ index: 0, message, finish_reason: calls.length ? "tool_calls" : "stop" }];
  response.writeHead(200, { "content-type": "application/json" });
  const head = { id: "chatcmpl-1", object: "chat.completion", created: 1, model: request.model };
  response.end(JSON.stringify({ ...head, choices, usage: USAGE }));
}

const PYTHON = fileURLToPath(new URL("../../../.testenv/venv/bin/python", import.meta.url));
const LLAMA = fileURLToPath(new URL("../python/llama_server.py", import.meta.url));

/** llama.cpp's own server on a tiny model that says short noise. */
export async function llamaUpstream() {
  assert.ok(existsSync(PYTHON), `${PYTHON} is missing: ./test python makes it`);
  const folder = mkdtempSync(join(tmpdir(), "model-gateway-llama-"));
  const child = spawn(PYTHON, [LLAMA, "agent", folder], { stdio: ["ignore", "pipe", "ignore"] });
  const ended = new Promise((resolve) => child.once("close", resolve));
  const url = await new Promise((resolve, reject) => {
    let said = "";
    child.stdout.setEncoding("utf8").on("data", (text) => {
      said += text;
      const found = said.match(/^listening on (http:\/\/[\d.]+:\d+)$/m);
      if (found) resolve(found[1]);
    });
    ended.then(() => reject(new Error(`llama.cpp's server does not start:\n${said}`)));
  });
  const stop = async () => {
    child.kill("SIGKILL");
    await ended;
    rmSync(folder, { recursive: true });
  };
  return { url, stop };
}

/**
 * A server before another one: it notes the method and the path of each request, and passes the request on. WebSockets go through it where
 * `webSockets` says so. Otherwise it is a proxy of the old kind: the headers that ask for another protocol end at it.
 */
export async function counting(url, { webSockets = false } = {}) {
  const asked = [];
  const { hostname, port } = new URL(url);
  const server = createServer((request, response) => {
    const { method, url: path } = request;
    const { connection, upgrade, ...headers } = request.headers;
    asked.push(`${method} ${path.split("?")[0]}`);
    const onward = ask({ hostname, port, path, method, headers }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
    onward.on("error", () => response.destroy());
    request.pipe(onward);
  });
  const opened = new Set();
  if (webSockets) {
    server.on("upgrade", (request, socket, first) => {
      asked.push(`WebSocket ${request.url.split("?")[0]}`);
      const lines = request.rawHeaders.map((word, place) => (place % 2 ? `${word}\r\n` : `${word}: `));
      const onward = connect(port, hostname, () => {
        onward.write(`GET ${request.url} HTTP/1.1\r\n${lines.join("")}\r\n`);
        onward.write(first);
        onward.pipe(socket).pipe(onward);
      });
      for (const [one, other] of [
        [socket, onward],
        [onward, socket],
      ]) {
        opened.add(one);
        one.on("error", () => other.destroy()).on("close", () => other.destroy());
      }
    });
  }
  const { url: own, stop } = await listen(server);
  const stopAll = () => {
    for (const socket of opened) socket.destroy(); // the server no longer knows them
    return stop();
  };
  return { asked, url: own, stop: stopAll };
}

/** A proxy for everything that is not on this machine: it notes each destination and refuses it. */
async function refusingProxy() {
  const asked = [];
  const server = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`);
    response.writeHead(403).end();
  });
  server.on("connect", (request, socket) => {
    asked.push(`CONNECT ${request.url}`);
    socket.on("error", () => {});
    socket.end("HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n");
  });
  return { ...(await listen(server)), asked };
}

/** The text of a chat message. */
function text({ content }) {
  return typeof content === "string" ? content : content.map((part) => part.text).join("");
}

/** The names of the tools that a request offers. */
export function offered(request) {
  return (request.tools ?? []).map((tool) => tool[tool.type].name);
}

/** The results of the tools since the user spoke last. */
export function results(request) {
  const last = request.messages.findLastIndex((message) => message.role === "user");
  return request.messages.slice(last + 1).filter((message) => message.role === "tool").map(text);
}

/** Whether the user has said it in this conversation. */
export function hasSaid(request, words) {
  return request.messages.some((message) => message.role === "user" && text(message).includes(words));
}

/** Everything that a run of an agent needs. `script` answers for the model; `setting` is one more of its provider's. */
export async function startStage(script, setting = "") {
  return stageOn(await scriptedUpstream(script), setting, RUN_MS);
}

/** As `startStage`, on llama.cpp's own server. */
export async function startLlamaStage() {
  const patience = `responses = false\ntimeouts = { first_token_ms = ${SLOW_RUN_MS}, total_ms = ${SLOW_RUN_MS} }`;
  return stageOn(await llamaUpstream(), patience, SLOW_RUN_MS);
}

async function stageOn(upstream, setting, runMs) {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "model-gateway-agent-")));
  const [home, work, path, temporary] = ["home", "work", "bin", "tmp"].map((name) => join(folder, name));
  for (const name of [home, work, path, temporary]) mkdirSync(name);
  const proxy = await refusingProxy();
  const gateway = await startGateway(`
[[providers]]
name = "scripted"
api = "openai"
base_url = "${upstream.url}/v1"
api_key = "k"
${setting}

[[models]]
id = "${MODEL}"
context_length = 200000
max_output_tokens = 32000
category = ["chat"]
features = ["streaming", "function_calling"]

[[keys]]
name = "admin"
key = "${ADMIN}"
role = "admin"
`);
  const url = gateway.baseURL.replace(/\/v1$/, "");
  // The agent gets none of our own variables: they may name a real provider, or another agent around this test.
  const env = {
    HOME: home,
    PATH: `${path}:${process.env.PATH}`,
    SHELL: "/bin/bash",
    LANG: "C.UTF-8",
    TMPDIR: temporary,
    ...Object.fromEntries(PROXIES.flatMap((name) => [name, name.toLowerCase()]).map((name) => [name, proxy.url])),
    NO_PROXY: "127.0.0.1",
    no_proxy: "127.0.0.1",
  };
  const admin = async (what) => {
    const response = await fetch(`${url}/admin/v1/${what}`, { headers: { authorization: `Bearer ${ADMIN}` } });
    assert.equal(response.status, 200);
    return response.json();
  };
  return {
    url,
    home,
    work,
    env,
    upstream,
    proxy,
    model: MODEL,
    key: gateway.key,
    /** Puts a program where `PATH` finds it. */
    install: (name, file) => symlinkSync(file, join(path, name)),
    /** Runs a program in the workspace to its end. */
    run: (program, args, more = {}) => run(program, args, runMs, { cwd: work, env: { ...env, ...more } }),
    /** So many rows of the request log, the oldest first. The gateway writes them after the answers. */
    ledger: async (rows) => {
      for (;;) {
        const { data } = await admin("requests?limit=100");
        if (data.length >= rows) return data.reverse();
      }
    },
    stop: async () => {
      await gateway.stop();
      await upstream.stop();
      await proxy.stop();
      rmSync(folder, { recursive: true, maxRetries: 5 });
    },
  };
}

function run(program, args, timeout, options) {
  return new Promise((resolve, reject) => {
    const limits = { timeout, killSignal: "SIGKILL" };
    const child = spawn(program, args, { ...options, ...limits, stdio: ["ignore", "pipe", "pipe"] });
    const said = { stdout: "", stderr: "" };
    for (const name of ["stdout", "stderr"]) child[name].setEncoding("utf8").on("data", (text) => (said[name] += text));
    child.once("error", reject);
    child.once("close", (status, signal) => resolve({ status, signal, ...said }));
  });
}

/** The program of Gemini CLI. */
export const gemini = () => packaged("@google/gemini-cli", "bundle", "gemini.js");
