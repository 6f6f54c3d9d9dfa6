// Claude Code and Codex themselves, on llama.cpp's own server. The model says noise, so the protocol is what counts: each run
// ends without an error, its requests are streamed through, and the log has them.

import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, it } from "node:test";
import { claude, codex, gatewayBinary, startLlamaStage } from "./agents.mjs";

const TIMEOUT = { timeout: 600_000 };
const QUESTION = "Say hello.";

describe("Agents on llama.cpp's server", () => {
  let stage;
  beforeEach(async () => (stage = await startLlamaStage()));
  afterEach(() => stage.stop());

  const started = (...args) => ["run", "--no-telemetry", "--url", stage.url, "--model", stage.model, "--", ...args];

  /** What holds for every request of a run. */
  async function checked(surface, done) {
    assert.equal(done.status, 0, `${done.stdout}\n${done.stderr}`);
    assert.doesNotMatch(done.stdout + done.stderr, /API Error|reconnect|disconnected|retrying|stream error/i);
    const rows = await stage.ledger(1);
    for (const row of rows) {
      assert.equal(row.surface, surface);
      assert.equal(row.status, "ok");
      assert.ok(row.stream);
      assert.ok(row.prompt_tokens > 1000, `${row.prompt_tokens} tokens are no agent's prompt`);
      assert.ok(row.completion_tokens > 0);
      assert.match(row.session, /^[0-9a-f-]{36}$/);
    }
    assert.deepEqual(stage.proxy.asked, []);
  }

  it("answers Claude Code", TIMEOUT, async () => {
    stage.install("claude", claude());
    const environment = { MODEL_GATEWAY_KEY: stage.key, CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1" };
    await checked("messages", await stage.run(gatewayBinary, started("claude", "-p", QUESTION), environment));
  });

  it("answers Codex", TIMEOUT, async () => {
    stage.install("codex", codex());
    mkdirSync(join(stage.home, ".codex"));
    // Without it, Codex asks GitHub for its list of plugins at each start.
    writeFileSync(join(stage.home, ".codex", "config.toml"), "[features]\nplugins = false\n");
    const args = started("codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", QUESTION);
    await checked("responses", await stage.run(gatewayBinary, args, { MODEL_GATEWAY_KEY: stage.key }));
  });
});
