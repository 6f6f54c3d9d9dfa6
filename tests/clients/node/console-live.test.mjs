// The live tail beside a busy gateway: 200 requests a second for ten seconds.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { startBrowser } from "./browser.mjs";
import { ADMIN, HOLDER, openPage, signIn, startConsole } from "./console-browser.mjs";

const PER_SECOND = 200;
const SECONDS = 10;
/** The rows that the page keeps, as `console/src/screens/requests/live.ts` says. */
const MOST_ROWS = 500;
const LONGEST_TASK_MS = 100;
const TICK_MS = 50;

describe("the live tail", () => {
  let gateway, browser;

  before(async () => {
    gateway = await startConsole();
    browser = await startBrowser();
  });
  after(async () => {
    await browser?.close();
    await gateway?.stop();
  });

  async function chat(n) {
    const answer = await fetch(`${gateway.origin}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${HOLDER}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "demo/chat", messages: [{ role: "user", content: `Request ${n}` }] }),
    });
    await answer.text();
    return { status: answer.status, id: answer.headers.get("x-request-id") };
  }

  /** Sends the requests evenly, and gives their answers. */
  function load() {
    const begun = performance.now();
    const sent = [];
    return new Promise((resolve) => {
      const timer = setInterval(() => {
        const due = Math.min((PER_SECOND * (performance.now() - begun)) / 1000, PER_SECOND * SECONDS);
        while (sent.length < due) sent.push(chat(sent.length));
        if (sent.length < PER_SECOND * SECONDS) return;
        clearInterval(timer);
        resolve(Promise.all(sent));
      }, TICK_MS);
    });
  }

  it("stays responsive at 200 requests a second", { timeout: 120_000 }, async () => {
    const { context, page, faults } = await openPage(browser, gateway.origin);
    await page.addInitScript(() => {
      window.longTasks = [];
      new PerformanceObserver((list) => window.longTasks.push(...list.getEntries().map((entry) => entry.duration))).observe({ type: "longtask" });
    });
    await signIn(page, gateway.origin, ADMIN, "/ui/requests?live=true");
    await page.getByText("Live: requests appear as they end.").waitFor();
    await page.evaluate(() => window.longTasks.splice(0));
    const begun = performance.now();
    const answers = await load();
    const took = (performance.now() - begun) / 1000;
    assert.deepEqual([...new Set(answers.map((answer) => answer.status))], [200]);

    // The page keeps the newest 500 rows, all of them of this load.
    const table = page.getByRole("table", { name: "Requests" });
    const ids = new Set(answers.map((answer) => answer.id));
    await page.waitForFunction((rows) => Number(document.querySelector("table")?.getAttribute("aria-rowcount")) === rows, MOST_ROWS + 1);
    const shown = await table.getByRole("link").evaluateAll((links) => links.map((link) => link.href.split("/").at(-1)));
    const known = shown.filter((id) => id.startsWith("req_"));
    assert.ok(known.length > 0 && known.every((id) => ids.has(id)), known.join());
    const drawn = await table.locator("tbody tr").count();
    assert.ok(drawn < 200, `${drawn} rows are drawn: only those in sight should be`);
    const missed = /([\d,]+) requests came too fast/.exec(await page.getByRole("status").first().innerText())?.[1] ?? "0";

    const tasks = await page.evaluate(() => window.longTasks);
    const longest = Math.max(0, ...tasks);
    console.log(
      `live tail: ${answers.length} requests in ${took.toFixed(1)} s, ${missed} left out, ${tasks.length} tasks above 50 ms, the longest ${longest.toFixed(0)} ms`,
    );
    if (process.env.CHECK_MACHINE_FIGURES) assert.ok(longest <= LONGEST_TASK_MS, `a task of ${longest} ms`);
    assert.deepEqual(faults, []);
    await context.close();
  });
});
