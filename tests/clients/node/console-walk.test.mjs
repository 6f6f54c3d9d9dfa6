// The walk of a new user in docs/quickstart.md, by clicks, with the seconds of each step: from the start of the program without any
// configuration to the request that an SDK sent, and its cost. A script reads nothing, so a person needs longer.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, describe, it } from "node:test";
import OpenAI from "openai";
import { claude, gatewayBinary } from "./agents.mjs";
import { startBrowser } from "./browser.mjs";
import { go, openPage } from "./console-browser.mjs";

const CLAUDE_MS = 100_000;

/** Runs a program to its end. */
function run(program, args, options) {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { ...options, timeout: CLAUDE_MS, killSignal: "SIGKILL", stdio: ["ignore", "pipe", "pipe"] });
    let said = "";
    for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (text) => (said += text));
    child.once("error", reject);
    child.once("close", (status) => resolve({ status, said }));
  });
}

describe("the walk of a new user", () => {
  let folder, child, ended, browser;
  const steps = [];

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), "model-gateway-walk-"));
    browser = await startBrowser();
  });
  after(async () => {
    await browser?.close();
    child?.kill("SIGTERM");
    await ended;
    rmSync(folder, { recursive: true, maxRetries: 5 });
  });

  async function step(name, work) {
    const begun = performance.now();
    const result = await work();
    steps.push([name, (performance.now() - begun) / 1000]);
    return result;
  }

  /** Starts the program in an empty folder, as a first start is; its link to the console. */
  function start() {
    const kept = ([name]) => !name.endsWith("_API_KEY") && !name.startsWith("MODEL_GATEWAY_");
    const env = { ...Object.fromEntries(Object.entries(process.env).filter(kept)), HOME: folder };
    child = spawn(gatewayBinary, ["serve", "--listen", "127.0.0.1:0"], {
      cwd: folder,
      env: { ...env, MODEL_GATEWAY_STORE__URL: `sqlite://${folder}/gateway.db` },
      stdio: ["ignore", "pipe", "pipe"],
    });
    ended = new Promise((resolve) => child.once("close", resolve));
    return new Promise((resolve, reject) => {
      ended.then(() => reject(new Error("the gateway ended without a link")));
      for (const stream of [child.stdout, child.stderr]) {
        createInterface({ input: stream }).on("line", (line) => {
          const found = /http:\/\/\S+\/ui\/\S*#\S*token\S*/.exec(line);
          if (found) resolve(found[0]);
        });
      }
    });
  }

  /** The variables of `export NAME=…` on the page of a client. */
  const exported = (text) => Object.fromEntries([...text.matchAll(/^export (\w+)='?([^'\n]+)'?$/gm)].map(([, name, value]) => [name, value]));

  it("takes less than five minutes", { timeout: 280_000 }, async () => {
    const link = await step("Start the program", start);
    const origin = new URL(link).origin;
    const { context, page, faults } = await openPage(browser, origin);
    await step("Open the link", async () => {
      await page.goto(link);
      await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
    });
    await step("Compare two models in the playground", async () => {
      await go(page, "Playground");
      await page.getByLabel("Model", { exact: true }).selectOption("demo/chat");
      await page.getByRole("button", { name: "Add a model" }).click();
      const other = page.getByLabel("Model 2");
      // Without a provider's key, the demo's one model that answers is compared with itself.
      const names = await other.locator("option").allInnerTexts();
      await other.selectOption(names.find((name) => name !== "demo/chat") ?? "demo/chat");
      await page.getByLabel("Message").fill("Which of you is faster?");
      await page.getByRole("button", { name: "Send" }).click();
      await page.getByText("Answered.").nth(1).waitFor();
    });
    const key = await step("Make a key with a budget", async () => {
      await go(page, "Keys and teams");
      await page.getByRole("button", { name: "Create key" }).click();
      await page.getByLabel("Name").fill("my app");
      await page.getByLabel("Budget").fill("5");
      await page.getByRole("button", { name: "Create", exact: true }).click();
      return page.locator("[data-secret]").innerText();
    });
    await step("Use it with the OpenAI SDK, as Client set-up says", async () => {
      await page.getByRole("link", { name: "Set up a client with it" }).click();
      await page.getByText("Waiting for your first request").waitFor();
      await page.getByRole("link", { name: /^OpenAI SDK/ }).first().click();
      const texts = (await page.locator("pre").allInnerTexts()).join("\n");
      const baseURL = /https?:\/\/[^\s'"]+\/v1/.exec(texts)[0];
      assert.ok(texts.includes(key), "the page has the key");
      const client = new OpenAI({ baseURL, apiKey: key });
      const answer = await client.chat.completions.create({ model: "demo/chat", messages: [{ role: "user", content: "Hello!" }] });
      assert.ok(answer.choices[0].message.content);
      await page.getByText("Your first request has arrived").waitFor();
    });
    await step("See the request and its cost", async () => {
      await go(page, "Requests");
      const row = page.getByRole("row").filter({ hasText: "my app" }).first();
      await row.getByRole("link").first().click();
      await page.getByRole("heading", { level: 1, name: /^Request req_/ }).waitFor();
      await page.getByRole("columnheader", { name: "Price per million" }).waitFor();
    });
    await step("The same with Claude Code", async () => {
      await go(page, "Keys and teams");
      await page.getByRole("button", { name: "Create key" }).click();
      await page.getByLabel("Name").fill("claude");
      await page.getByLabel("Budget").fill("5");
      await page.getByRole("button", { name: "Create", exact: true }).click();
      await page.getByRole("link", { name: "Set up a client with it" }).click();
      await page.getByRole("link", { name: /^Claude Code/ }).first().click();
      const set = exported(await page.locator("pre").first().innerText());
      assert.equal(set.ANTHROPIC_BASE_URL, origin);
      const home = join(folder, "claude");
      mkdirSync(home);
      const env = { HOME: home, PATH: process.env.PATH, NO_PROXY: "127.0.0.1", HTTPS_PROXY: "http://127.0.0.1:9", CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1", ...set };
      const done = await run(claude(), ["-p", "Say hello."], { cwd: home, env });
      assert.equal(done.status, 0, done.said);
      await page.getByText("Your first request has arrived").waitFor();
    });
    assert.deepEqual(faults, []);
    const total = steps.reduce((sum, [, seconds]) => sum + seconds, 0);
    for (const [name, seconds] of steps) console.log(`walk: ${name}: ${seconds.toFixed(1)} s`);
    console.log(`walk: all: ${total.toFixed(1)} s`);
    await context.close();
  });
});
