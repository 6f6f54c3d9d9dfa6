// Requests in the console, in a real browser (Chromium): made in the playground or by clients, found, explained and summed.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { KEYS, MARKUP, startFixture } from "./console-fixture.mjs";

describe("requests in the console", () => {
  let fixture, root, open, call, chat, logged, goTo, seriousViolations;

  before(async () => {
    fixture = await startFixture();
    ({ root, open, call, chat, logged, goTo, seriousViolations } = fixture);
  });
  after(() => fixture?.stop());

  it("names the end users and tags of requests, and leads to their other requests", async () => {
    await logged(await chat("No end user."));
    const answer = await call(KEYS.holder, "/v1/chat/completions", {
      method: "POST",
      body: JSON.stringify({
        model: "support",
        user: "ann",
        tags: ["night", "project:a"],
        messages: [{ role: "user", content: "Hello!" }],
      }),
    });
    const id = await logged(answer);
    const { page, faults, close } = await open(KEYS.admin);
    await page.getByRole("tab", { name: "By end user" }).click();
    await page.getByRole("row", { name: /no end user/ }).waitFor();
    await page.getByRole("link", { name: "ann", exact: true }).click();
    await page.getByRole("heading", { level: 1, name: "Requests" }).waitFor();
    assert.match(page.url(), /end_user=ann/);
    await page.locator(`a[href*="${id}"]`).click();
    await page.getByRole("heading", { level: 1, name: `Request ${id}` }).waitFor();
    await page.getByRole("link", { name: "project:a" }).click();
    await page.getByLabel("Tag", { exact: true }).waitFor();
    assert.equal(await page.getByLabel("Tag", { exact: true }).inputValue(), "project:a");
    await page.locator(`a[href*="${id}"]`).waitFor();
    assert.deepEqual(await seriousViolations(page), []);
    assert.deepEqual(faults, []);
    await close();
  });

  it("fits a request with a long tag into a narrow window", async () => {
    const tag = "t".repeat(64);
    const body = { model: "support", tags: [tag], messages: [{ role: "user", content: "Hello!" }] };
    const answer = await call(KEYS.holder, "/v1/chat/completions", { method: "POST", body: JSON.stringify(body) });
    const { page, close } = await open(KEYS.admin, { width: 400, path: `requests/${await logged(answer)}` });
    await page.getByRole("link", { name: tag }).waitFor();
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
    assert.ok(overflow <= 0, `the page is wider than the window by ${overflow} px`);
    await close();
  });

  it("shows the same sums as the API", async () => {
    await logged(await chat("Count me."));
    const { page, close } = await open(KEYS.admin);
    await page.getByText(/^As of /).waitFor();
    const { total } = await (await call(KEYS.admin, "/admin/v1/usage?since=24h")).json();
    const tile = (name) => page.locator(`[data-metric="${name}"] dd`).first().innerText();
    assert.equal(Number((await tile("tokens")).replaceAll(",", "")), total.total_tokens);
    assert.equal(Number((await tile("requests")).replaceAll(",", "")), total.requests);
    assert.equal(Number((await tile("spend")).replace(/[$,]/g, "")), total.cost_usd);
    assert.ok(await page.getByText(`unpriced requests: ${total.unpriced_requests}`).isVisible());
    await page.getByRole("tab", { name: "By key" }).click();
    await page.getByRole("row", { name: /holder/ }).waitFor();
    await close();
  });

  it("makes a key, shows it once, and shows the request that used it", async () => {
    const { page, close } = await open(KEYS.admin);
    await goTo(page, "Keys and teams");
    await page.getByRole("button", { name: "Create key" }).click();
    await page.getByLabel("Name").fill(MARKUP);
    await page.getByLabel("Role").selectOption("inference");
    await page.getByLabel("Budget").fill("2.50");
    await page.getByRole("button", { name: "Create" }).click();
    const secret = await page.locator("[data-secret]").innerText();
    await page.getByRole("button", { name: "Done" }).click();
    assert.equal(await page.getByText(secret).count(), 0);
    const id = await logged(await chat("A walk.", secret));
    await goTo(page, "Requests");
    await page.locator(`a[href$="/requests/${id}"]`).click();
    await page.getByRole("heading", { level: 1, name: `Request ${id}` }).waitFor();
    await page.getByRole("columnheader", { name: "Price per million" }).waitFor();
    for (const kind of ["Prompt", "Completion"]) await page.getByRole("cell", { name: kind, exact: true }).waitFor();
    assert.equal(await page.evaluate(() => window.pwned), undefined);
    await close();
  });

  it("runs no markup of stored prompts and answers", async () => {
    const id = await logged(await chat(MARKUP));
    const { page, faults, close } = await open(KEYS.admin);
    const payload = page.getByText("window.pwned=1").first();
    for (let tries = 0; tries < 50 && (await payload.count()) === 0; tries += 1) {
      await page.goto(`${root}/ui/requests/${id}`);
      await page.waitForLoadState("networkidle");
    }
    await payload.waitFor();
    assert.equal(await page.evaluate(() => window.pwned), undefined);
    assert.deepEqual(faults, []);
    await close();
  });

  it("shows requests live", async () => {
    const { page, close } = await open(KEYS.admin, { path: "requests" });
    await page.getByRole("button", { name: "Live" }).click();
    await page.getByText("Live: requests appear as they end.").waitFor();
    const id = (await chat("Now.")).headers.get("x-request-id");
    await page.locator(`a[href$="/requests/${id}"]`).waitFor();
    await close();
  });

  it("says why a request took its route", async () => {
    const body = { model: "demo/error-500", messages: [{ role: "user", content: "Hello" }], routing: { fallback: ["demo/embed", "demo/chat"] } };
    const id = await logged(await call(KEYS.holder, "/v1/chat/completions", { method: "POST", body: JSON.stringify(body) }));
    const { page, faults, close } = await open(KEYS.admin, { path: `requests/${id}` });
    const candidates = page.getByRole("table", { name: "Candidates" });
    await candidates.getByRole("row", { name: /demo\/error-500 failed: upstream_error asked for by the strategy/ }).waitFor();
    await candidates.getByRole("row", { name: /demo\/chat answered a fallback of the request by the strategy/ }).waitFor();
    await page.getByRole("listitem").filter({ hasText: /^demo\/embed: / }).waitFor();
    await page.setViewportSize({ width: 390, height: 900 });
    assert.deepEqual(await seriousViolations(page), []);
    assert.deepEqual(faults, []);
    await close();
  });

  it("asks two models in the playground, each API in turn, and runs no markup of their answers", async () => {
    const { page, faults, close } = await open(KEYS.admin, { path: "playground?models=demo/chat,from-file" });
    for (const api of ["chat", "responses", "messages"]) {
      await page.getByLabel("API", { exact: true }).selectOption(api);
      await page.getByLabel("Message").fill(`${api} ${MARKUP}`);
      await page.getByRole("button", { name: "Send" }).click();
      const answers = page.getByRole("article").filter({ hasText: `Demo answer to: ${api} ${MARKUP}` });
      await answers.nth(1).getByText("Answered.").waitFor();
      for (const figure of ["TTFT", "tokens/s", "Cost"]) {
        assert.equal(await answers.filter({ hasText: figure }).count(), 2, `${api} ${figure}`);
      }
    }
    await page.getByRole("button", { name: "Code" }).click();
    await page.getByRole("tab", { name: "Python" }).click();
    await page.getByText(`base_url="${root}"`).waitFor();
    assert.equal(await page.evaluate(() => window.pwned), undefined);
    assert.deepEqual(faults, []);
    await close();
  });

  it("opens a kept prompt in the playground", async () => {
    const id = await logged(await chat("Once more."));
    const { page, close } = await open(KEYS.admin, { path: `requests/${id}` });
    await page.getByRole("link", { name: "Open in the playground" }).click();
    await page.getByText(`the prompt of ${id}`, { exact: false }).first().waitFor();
    await close();
  });

  it("compares two models of the catalogue", async () => {
    const { page, close } = await open(KEYS.admin, { path: "models" });
    await page.getByRole("checkbox", { name: "demo/chat" }).check();
    await page.getByRole("checkbox", { name: "demo/embed" }).check();
    await page.getByRole("button", { name: "Compare" }).click();
    await page.getByRole("table", { name: "Comparison" }).getByText("Measured by this gateway").waitFor();
    await close();
  });

  it("fills a client in with a key just made, and sees its first request", async () => {
    const { page, close } = await open(KEYS.admin, { path: "keys" });
    await page.getByRole("button", { name: "Create key" }).click();
    await page.getByLabel("Name").fill("claude");
    await page.getByRole("button", { name: "Create", exact: true }).click();
    const secret = await page.locator("[data-secret]").innerText();
    await page.getByRole("link", { name: "Set up a client with it" }).click();
    await page.getByText(`export ANTHROPIC_AUTH_TOKEN='${secret}'`).waitFor();
    await page.getByText("Waiting for your first request").waitFor();
    const arrived = page.getByText("Your first request has arrived");
    for (let tries = 0; tries < 20 && !(await arrived.isVisible()); tries += 1) {
      await logged(await chat("First.", secret));
    }
    await arrived.waitFor();
    await close();
  });

  it("tries an operation of the API reference with the session", async () => {
    const { page, faults, close } = await open(KEYS.admin, { path: "reference" });
    await page.locator("#operations-Generation-createChatCompletion button").first().click();
    await page.getByRole("button", { name: "Try it out" }).click();
    await page.getByRole("button", { name: "Execute" }).click();
    await page.getByText("Demo answer to: Hello").first().waitFor();
    assert.deepEqual(await seriousViolations(page), []);
    assert.deepEqual(faults, []);
    await close();
  });
});
