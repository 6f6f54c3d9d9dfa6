// Codex itself, on a model that only speaks OpenAI's chat API: it applies a patch and runs a command.

import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, it } from "node:test";
import { codex, counting, gatewayBinary, hasSaid, offered, results, startStage } from "./agents.mjs";

const ARGUMENTS = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"];
const FIRST = "Replace one by two in a.txt.";
const SECOND = "Copy a.txt to b.txt.";
const PATCH = "*** Begin Patch\n*** Update File: a.txt\n@@\n zero\n-one – 1\n+two – „2“\n*** End Patch\n";

describe("Codex", () => {
  let stage;
  beforeEach(async () => {
    stage = await startStage(script);
    stage.install("codex", codex());
    writeFileSync(file("a.txt"), "zero\none – 1\n");
    mkdirSync(join(stage.home, ".codex"));
    // Codex offers `apply_patch` only to models whose entry says so.
    const entry = {
      slug: stage.model,
      display_name: "Scripted",
      supported_reasoning_levels: [],
      shell_type: "shell_command",
      visibility: "list",
      supported_in_api: true,
      priority: 1,
      base_instructions: "You write code.",
      supports_reasoning_summaries: false,
      support_verbosity: false,
      apply_patch_tool_type: "freeform",
      truncation_policy: { mode: "bytes", limit: 10_000 },
      supports_parallel_tool_calls: true,
      context_window: 200_000,
      experimental_supported_tools: [],
    };
    writeFileSync(catalogue(), JSON.stringify({ models: [entry] }));
  });
  afterEach(() => stage.stop());

  const file = (name) => join(stage.work, name);
  const catalogue = () => join(stage.home, "models.json");
  const settings = () => join(stage.home, ".codex", "config.toml");
  // Without it, Codex asks GitHub for its list of plugins at each start.
  const OFFLINE = "[features]\nplugins = false\n";

  /** What the model says. Each step sees the results of the steps before it. */
  function script(request) {
    assert.ok(request.stream);
    for (const name of ["exec_command", "apply_patch"]) assert.ok(offered(request).includes(name), name);
    const done = results(request);
    if (!hasSaid(request, SECOND)) {
      if (done.length === 0) return { text: "I change it.", calls: [["apply_patch", { input: PATCH }]] };
      assert.match(done[0], /M a\.txt/);
      return { text: "The file says two." };
    }
    assert.ok(hasSaid(request, FIRST), "the second turn lost the first");
    if (done.length === 0) return { calls: [["exec_command", { cmd: "cp a.txt b.txt && echo it ran" }]] };
    assert.match(done[0], /it ran/);
    return { text: "The copy is there." };
  }

  /** Sets Codex up as `model-gateway setup codex` says. */
  async function setUp(url = stage.url) {
    const shown = await stage.run(gatewayBinary, ["setup", "codex", "--model", stage.model, "--url", url]);
    assert.equal(shown.status, 0, shown.stderr);
    const quiet = "[analytics]\nenabled = false\n[feedback]\nenabled = false\n";
    writeFileSync(settings(), `model_catalog_json = "${catalogue()}"\n${shown.stdout}\n${quiet}${OFFLINE}`);
  }

  for (const [way, program, before, prepare] of [
    ["with its config.toml", "codex", () => [], () => setUp()],
    [
      "through model-gateway run",
      gatewayBinary,
      () => ["run", "--no-telemetry", "--url", stage.url, "--model", stage.model, "--", "codex"],
      async () => writeFileSync(settings(), `model_catalog_json = "${catalogue()}"\n${OFFLINE}`),
    ],
  ]) {
    it(`applies a patch and runs a command in two turns, ${way}`, async () => {
      await prepare();
      const turn = (...args) =>
        stage.run(program, [...before(), "exec", ...args], { MODEL_GATEWAY_KEY: stage.key, RUST_LOG: "info" });

      const first = await turn(...ARGUMENTS, FIRST);
      assert.equal(first.status, 0, first.stderr);
      assert.equal(first.stdout, "The file says two.\n");
      assert.equal(readFileSync(file("a.txt"), "utf8"), "zero\ntwo – „2“\n");

      const second = await turn("resume", "--last", ...ARGUMENTS, SECOND);
      assert.equal(second.status, 0, second.stderr);
      assert.equal(second.stdout, "The copy is there.\n");
      assert.equal(readFileSync(file("b.txt"), "utf8"), "zero\ntwo – „2“\n");

      for (const { stderr } of [first, second]) assert.doesNotMatch(stderr, /reconnect|disconnected|retrying/i);
      // Codex offers a web search of the provider. It has no price here, so the request goes as a chat at once.
      assert.deepEqual(stage.upstream.faults, []);
      assert.equal(stage.upstream.requests.length, 4); // nothing was asked twice
      const rows = await stage.ledger(4);
      assert.equal(rows.length, 4);
      for (const row of rows) {
        assert.equal(row.surface, "responses");
        assert.equal(row.status, "ok");
        assert.equal(row.model, stage.model);
        assert.ok(row.stream);
        assert.equal(row.total_tokens, 1050);
        assert.match(row.session, /^[0-9a-f-]{36}$/);
      }
      assert.equal(new Set(rows.map((row) => row.session)).size, 1);
      assert.deepEqual(stage.proxy.asked, []);
    });
  }

  for (const [way, webSockets, ofEachRun] of [
    ["over WebSockets", true, ["WebSocket"]],
    ["over HTTP after 426 instead of a WebSocket", false, ["GET", "POST", "POST"]],
  ]) {
    it(`applies a patch and runs a command in two turns, ${way}`, async () => {
      const between = await counting(stage.url, { webSockets });
      await setUp(between.url);
      const lines = readFileSync(settings(), "utf8").replace('wire_api = "responses"', "$&\nsupports_websockets = true");
      writeFileSync(settings(), lines);
      const turn = (...args) => stage.run("codex", ["exec", ...args], { MODEL_GATEWAY_KEY: stage.key });

      const first = await turn(...ARGUMENTS, FIRST);
      assert.equal(first.stdout, "The file says two.\n", first.stderr);
      const second = await turn("resume", "--last", ...ARGUMENTS, SECOND);
      await between.stop();
      assert.equal(second.stdout, "The copy is there.\n", second.stderr);
      assert.equal(readFileSync(file("b.txt"), "utf8"), "zero\ntwo – „2“\n");

      // Each run makes two requests. A socket serves both.
      const asked = [...ofEachRun, ...ofEachRun].map((method) => `${method} /v1/responses`);
      assert.deepEqual(between.asked, asked);
      assert.deepEqual(stage.upstream.faults, []);
      assert.equal(stage.upstream.requests.length, 4);
      const rows = await stage.ledger(4);
      assert.deepEqual(
        rows.map((row) => [row.surface, row.status, row.stream, row.total_tokens]),
        Array(4).fill(["responses", "ok", true, 1050]),
      );
    });
  }

  it("wraps its tools for a provider that may know only functions", async () => {
    await setUp();
    const done = await stage.run("codex", ["exec", ...ARGUMENTS, FIRST], { MODEL_GATEWAY_KEY: stage.key });
    assert.equal(done.status, 0, done.stderr);
    const kinds = stage.upstream.requests.flatMap((request) => request.tools.map((tool) => tool.type));
    assert.deepEqual(new Set(kinds), new Set(["function"]));
  });

  it("calls a tool of a namespace", async () => {
    await setUp();
    const close = "multi_agent_v1__close_agent";
    stage.upstream.script = (request) => {
      assert.ok(offered(request).includes(close));
      const [result] = results(request);
      if (result === undefined) return { calls: [[close, { target: "nobody" }]] };
      // Codex says "unsupported call" when the gateway does not give it the namespace and the name apart.
      assert.match(result, /invalid agent id nobody/);
      return { text: "There is no such agent." };
    };
    const done = await stage.run("codex", ["exec", ...ARGUMENTS, FIRST], { MODEL_GATEWAY_KEY: stage.key });
    assert.equal(done.status, 0, done.stderr);
    assert.equal(done.stdout, "There is no such agent.\n");
  });

  it("is answered by chats alone where the configuration says so", async () => {
    const chats = await startStage(() => ({ text: "Hello." }), "responses = false");
    chats.install("codex", codex());
    mkdirSync(join(chats.home, ".codex"));
    writeFileSync(join(chats.home, ".codex", "config.toml"), OFFLINE);
    const before = ["run", "--no-telemetry", "--url", chats.url, "--model", chats.model, "--", "codex"];
    const args = [...before, "exec", ...ARGUMENTS, FIRST];
    const done = await chats.run(gatewayBinary, args, { MODEL_GATEWAY_KEY: chats.key });
    await chats.stop();
    assert.equal(done.stdout, "Hello.\n", done.stderr);
    assert.deepEqual(chats.upstream.faults, []);
  });
});
