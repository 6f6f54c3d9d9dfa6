// Gemini CLI itself, on a model that only speaks OpenAI's chat API: it writes a file.

import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, it } from "node:test";
import { gemini, offered, results, startStage } from "./agents.mjs";

describe("Gemini CLI", () => {
  let stage;
  beforeEach(async () => {
    stage = await startStage(script);
    stage.install("gemini", gemini());
    mkdirSync(join(stage.home, ".gemini"));
    const settings = { security: { auth: { selectedType: "gemini-api-key" } }, privacy: { usageStatisticsEnabled: false }, general: { enableAutoUpdate: false } };
    writeFileSync(join(stage.home, ".gemini", "settings.json"), JSON.stringify(settings));
  });
  afterEach(() => stage.stop());

  const file = (name) => join(stage.work, name);

  /** What the model says. Each step sees the results of the steps before it. */
  function script(request) {
    if (!request.stream) return { text: "{}" };
    if (!offered(request).includes("write_file")) return { text: "{}" };
    if (results(request).length === 0) {
      return { text: "I write it.", calls: [["write_file", { file_path: file("a.txt"), content: "two – „2“\n" }]] };
    }
    return { text: "The file is there." };
  }

  it("writes a file with a tool, without a terminal", async () => {
    const environment = {
      GEMINI_API_KEY: stage.key,
      GOOGLE_GEMINI_BASE_URL: stage.url,
      GEMINI_CLI_TRUST_WORKSPACE: "true",
    };
    const done = await stage.run("gemini", ["--model", stage.model, "--yolo", "-p", "Write two into a.txt."], environment);
    assert.equal(done.status, 0, done.stderr);
    assert.match(done.stdout, /The file is there\./);
    assert.equal(readFileSync(file("a.txt"), "utf8"), "two – „2“\n");
    assert.deepEqual(stage.upstream.faults, []);
    const rows = await stage.ledger(2);
    for (const row of rows) assert.equal(row.surface, "gemini");
  });
});
