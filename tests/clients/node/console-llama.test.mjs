// The playground in front of a real model server: llama.cpp's own, on a tiny model that says short noise.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { llamaUpstream } from "./agents.mjs";
import { startBrowser } from "./browser.mjs";
import { call, go, openPage, signIn, startConsole } from "./console-browser.mjs";

const MODEL = "local/noise";

describe("the playground on llama.cpp's server", () => {
  let upstream, gateway, browser;

  before(async () => {
    upstream = await llamaUpstream();
    gateway = await startConsole(`
[[providers]]
name = "local"
api = "openai"
base_url = "${upstream.url}/v1"
api_key = "k"
responses = false

[[models]]
id = "${MODEL}"
category = ["chat"]
context_length = 60000
max_output_tokens = 1000
features = ["streaming"]
pricing = { official_input_per_m = 0.5, official_output_per_m = 1.5 }
`);
    browser = await startBrowser();
  });
  after(async () => {
    await browser?.close();
    await gateway?.stop();
    await upstream?.stop();
  });

  it("streams an answer and shows TTFT, tokens/s and the cost of the log", async () => {
    const { context, page, faults } = await openPage(browser, gateway.origin);
    await signIn(page, gateway.origin);
    await go(page, "Playground");
    await page.getByLabel("Model", { exact: true }).first().selectOption(MODEL);
    await page.getByLabel("Message").fill("Say something.");
    await page.getByRole("button", { name: "Send" }).click();
    const card = page.getByRole("article", { name: `Answer of ${MODEL}` });
    await card.getByText("Answered.").waitFor({ timeout: 90_000 });
    assert.match(await card.locator("p").first().innerText(), /^[a-z ]{8,60}$/);
    const shown = (await card.locator("dl").innerText()).replaceAll(/\s+/g, " ");
    for (const figure of [/TTFT [\d.,]+ m?s/, /[\d.,]+ tokens\/s/, /Tokens \d+ \+ \d+/, /Cost \$0\.0000\d+/]) assert.match(shown, figure);
    console.log(`the playground on llama.cpp's server: ${shown}`);

    await card.getByRole("link", { name: "Its request" }).click();
    await page.getByRole("heading", { level: 1, name: /^Request req_/ }).waitFor();
    const id = page.url().split("/").at(-1);
    // The row is written a moment after the answer.
    let { body } = await call(gateway.origin, `/admin/v1/requests/${id}`);
    for (const end = Date.now() + 30_000; body.status === undefined && Date.now() < end; ) {
      await page.waitForTimeout(50);
      ({ body } = await call(gateway.origin, `/admin/v1/requests/${id}`));
    }
    assert.equal(body.status, "ok");
    assert.equal(body.model, MODEL);
    const cost = shown.match(/Cost \$([\d.]+)/)[1];
    assert.equal(Number(cost), body.cost_usd);
    const promised = (body.prompt_tokens * 0.5 + body.completion_tokens * 1.5) / 1e6;
    assert.ok(Math.abs(body.cost_usd - promised) < 1e-12, `${body.cost_usd} and ${promised}`);
    assert.deepEqual(faults, []);
    await context.close();
  });
});
