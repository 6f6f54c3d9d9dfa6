// One query is behind every total: the rows of the log, the report, the tiles and the metrics say the same.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
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

/** Prices whose products have more digits than a float shows. */
const PRICED = `
[[models]]
id = "demo/priced"
upstream_model = "chat"
category = ["chat"]
context_length = 8192
pricing = { official_input_per_m = 0.37, official_output_per_m = 1.13 }

[[models]]
id = "demo/vectors"
upstream_model = "embed"
category = ["embedding"]
context_length = 8192
pricing = { official_input_per_m = 0.013, official_output_per_m = 0 }
`;

describe("the totals of the console", () => {
  let gateway, browser;

  before(async () => {
    gateway = await startConsole(PRICED);
    browser = await startBrowser();
    const { origin } = gateway;
    const input = { model: "demo/priced", input: "Hello" };
    const calls = [
      chat(origin, "demo/priced", "One"),
      chat(origin, "demo/priced", "Two", { stream: true }),
      chat(origin, "demo/priced", "Three", { cache: { enabled: true } }),
      chat(origin, "demo/unknown", "Four"),
      call(origin, "/v1/responses", { key: HOLDER, body: input }),
      call(origin, "/v1/responses", { key: HOLDER, body: { ...input, stream: true } }),
      call(origin, "/v1/messages", { key: HOLDER, body: { model: "demo/priced", max_tokens: 50, messages: [{ role: "user", content: "Hi" }] } }),
      call(origin, "/v1/embeddings", { key: HOLDER, body: { model: "demo/vectors", input: ["a", "b"] } }),
    ];
    await Promise.all(calls);
    await chat(origin, "demo/priced", "Three", { cache: { enabled: true } });
  });
  after(async () => {
    await browser?.close();
    await gateway?.stop();
  });

  it("are equal on the page, in the report, in the log and in the metrics, to the last digit", async () => {
    const { origin } = gateway;
    const rows = await allRows(origin, 9);
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
