// Claude Code itself, on a model that only speaks OpenAI's chat API: it changes a file and runs a command.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, it } from "node:test";
import { claude, counting, gatewayBinary, hasSaid, offered, results, startStage } from "./agents.mjs";

const QUIET = [
  "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
  "DISABLE_AUTOUPDATER",
  "DISABLE_ERROR_REPORTING",
  "DISABLE_TELEMETRY",
];
const ALLOWED = ["--allowedTools", "Read,Edit,Write,Bash"];
const FIRST = "Replace one by two in a.txt.";
const SECOND = "Copy a.txt to b.txt.";

describe("Claude Code", () => {
  let stage;
  beforeEach(async () => {
    stage = await startStage(script);
    stage.install("claude", claude());
    writeFileSync(file("a.txt"), "zero\none – 1\n");
  });
  afterEach(() => stage.stop());

  const file = (name) => join(stage.work, name);

  /** What the model says. Each step sees the results of the steps before it. */
  function script(request) {
    assert.ok(request.stream);
    for (const name of ["Read", "Edit", "Write", "Bash"]) assert.ok(offered(request).includes(name), name);
    const done = results(request);
    if (!hasSaid(request, SECOND)) {
      const change = { file_path: file("a.txt"), old_string: "one – 1", new_string: "two – „2“" };
      const steps = [
        { text: "I look at it.", calls: [["Read", { file_path: file("a.txt") }]] },
        { calls: [["Edit", change], ["Write", { file_path: file("c.txt"), content: "three\n" }]] },
        { text: "The file says two." },
      ];
      if (done.length >= 1) assert.match(done[0], /one – 1/);
      return steps[[0, 1, undefined, 2][done.length]];
    }
    assert.ok(hasSaid(request, FIRST), "the second turn lost the first");
    const command = { command: "cp a.txt b.txt && echo it ran", description: "Copies" };
    if (done.length === 0) return { calls: [["Bash", command]] };
    assert.match(done[0], /it ran/);
    return { text: "The copy is there." };
  }

  for (const [way, program, before, environment] of [
    [
      "with its environment variables",
      "claude",
      () => [],
      () => ({
        ANTHROPIC_BASE_URL: stage.url,
        ANTHROPIC_AUTH_TOKEN: stage.key,
        ANTHROPIC_MODEL: stage.model,
        ...Object.fromEntries(QUIET.map((name) => [name, "1"])),
      }),
    ],
    [
      "through model-gateway run",
      gatewayBinary,
      () => ["run", "--no-telemetry", "--url", stage.url, "--model", stage.model, "--", "claude"],
      // `--no-telemetry` alone leaves a request to api.anthropic.com at each start.
      () => ({ MODEL_GATEWAY_KEY: stage.key, CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1" }),
    ],
  ]) {
    it(`changes files and runs a command in two turns, ${way}`, async () => {
      const turn = (...args) => stage.run(program, [...before(), ...args, ...ALLOWED], environment());

      const first = await turn("-p", FIRST);
      assert.equal(first.status, 0, first.stderr);
      assert.equal(first.stdout, "The file says two.\n");
      assert.equal(readFileSync(file("a.txt"), "utf8"), "zero\ntwo – „2“\n");
      assert.equal(readFileSync(file("c.txt"), "utf8"), "three\n");

      const second = await turn("--continue", "-p", SECOND);
      assert.equal(second.status, 0, second.stderr);
      assert.equal(second.stdout, "The copy is there.\n");
      assert.equal(readFileSync(file("b.txt"), "utf8"), "zero\ntwo – „2“\n");

      assert.deepEqual(stage.upstream.faults, []);
      assert.equal(stage.upstream.requests.length, 5); // nothing was asked twice
      const rows = await stage.ledger(5);
      assert.equal(rows.length, 5);
      for (const row of rows) {
        assert.equal(row.surface, "messages");
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

  it("gives up a wrong key after one request", async () => {
    const front = await counting(stage.url);
    try {
      const quiet = Object.fromEntries(QUIET.map((name) => [name, "1"]));
      const wrong = { ANTHROPIC_BASE_URL: front.url, ANTHROPIC_AUTH_TOKEN: "sk-wrong", ANTHROPIC_MODEL: stage.model, ...quiet };
      const done = await stage.run("claude", ["-p", FIRST, ...ALLOWED], wrong);
      assert.equal(done.status, 1, done.stderr);
      assert.match(done.stdout + done.stderr, /401/);
      assert.deepEqual(front.asked.filter((asked) => asked === "POST /v1/messages"), ["POST /v1/messages"]);
      assert.equal(stage.upstream.requests.length, 0);
    } finally {
      await front.stop();
    }
  });

  it("asks the provider for nothing that only Anthropic's API knows", async () => {
    const before = ["run", "--no-telemetry", "--url", stage.url, "--model", stage.model, "--", "claude"];
    const environment = { MODEL_GATEWAY_KEY: stage.key, CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1" };
    const done = await stage.run(gatewayBinary, [...before, "-p", FIRST, ...ALLOWED], environment);
    assert.equal(done.status, 0, done.stderr);
    // Groq refuses the marker, and others may.
    const marked = stage.upstream.requests.filter((request) => JSON.stringify(request).includes('"cache_control":'));
    assert.equal(marked.length, 0);
  });
});
