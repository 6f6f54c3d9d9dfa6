// A running gateway with the demo provider, for the tests of one file: a fresh one, or the one that
// MODEL_GATEWAY_URL and MODEL_GATEWAY_KEY name.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const BUILT = "../../../target/debug/model-gateway";
const KEY = "sk-client-test-key";
const LIMITED = "sk-client-test-limited";

const CONFIG = `
[server]
listen = "127.0.0.1:0"

[store]
url = "sqlite::memory:"

[[providers]]
name = "demo"
api = "demo"

[[models]]
id = "demo/with/slashes"
upstream_model = "chat"
category = ["chat"]
context_length = 8192

[[keys]]
name = "clients"
key = "${KEY}"

[[keys]]
name = "limited"
key = "${LIMITED}"
models = ["demo/chat"]
`;

/** A tool with two required arguments. */
export const weather = {
  type: "function",
  function: {
    name: "get_weather",
    description: "The weather of a city",
    parameters: {
      type: "object",
      properties: { city: { type: "string" }, days: { type: "integer" } },
      required: ["city", "days"],
      additionalProperties: false,
    },
  },
};

/**
 * Starts a gateway; gives its URL, its keys and `stop`. A test with its own providers always gets a fresh gateway, which listens
 * on a free port, or at `listen`. `more` are further variables of its environment.
 */
export async function startGateway(providers = "", { listen, more = {} } = {}) {
  const { MODEL_GATEWAY_URL: url, MODEL_GATEWAY_KEY: key } = process.env;
  if (url && !providers) return { baseURL: `${url}/v1`, key, limitedKey: undefined, stop: async () => {} };
  const folder = mkdtempSync(join(tmpdir(), "model-gateway-"));
  const config = join(folder, "gateway.toml");
  writeFileSync(config, CONFIG + providers);
  const binary = process.env.MODEL_GATEWAY_BIN ?? fileURLToPath(new URL(BUILT, import.meta.url));
  const secret = (name) => name.endsWith("_API_KEY");
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !secret(name)));
  const child = spawn(binary, ["serve", "--config", config, ...(listen ? ["--listen", listen] : [])], { cwd: folder, env: { ...env, ...more }, stdio: ["ignore", "ignore", "pipe"] });
  const ended = new Promise((resolve) => child.once("close", resolve));
  const address = await listening(child);
  const stop = async () => {
    child.kill("SIGTERM");
    await ended;
    rmSync(folder, { recursive: true });
  };
  return { baseURL: `${address}/v1`, key: KEY, limitedKey: LIMITED, stop };
}

/** The address in the log line `listening on …`. Later lines are read, too, or the child would block on a full pipe. */
function listening(child) {
  const lines = [];
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", () => reject(new Error(`it did not start:\n${lines.join("\n")}`)));
    createInterface({ input: child.stderr }).on("line", (line) => {
      lines.push(line);
      const found = /listening on (http:\/\/[\d.:[\]]+)/.exec(line);
      if (found) resolve(found[1]);
    });
  });
}

/** All items of an async iterable. */
export async function collect(iterable) {
  const items = [];
  for await (const item of iterable) items.push(item);
  return items;
}

/** Checks that the numbers are equal within the precision of 32 bits. */
export function assertClose(ours, theirs) {
  assert.equal(ours.length, theirs.length);
  for (const [index, value] of ours.entries()) assert.ok(Math.abs(value - theirs[index]) < 1e-6, `at ${index}`);
}
