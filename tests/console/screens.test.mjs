// The main task of each screen, done by clicks; and the rules of every page: its policy, its width, its accessibility.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import AxeBuilder from "@axe-core/playwright";
import { MARKUP, call, chat, go, openPage, signIn, startBrowser, startConsole } from "./browser.mjs";

const ALIASES = `
[aliases]
kept = "demo/chat"
`;

/** The screens by the name of their link. */
const SCREENS = [
  "Overview",
  "Requests",
  "Models",
  "Playground",
  "Client set-up",
  "API reference",
  "My key",
  "Keys and teams",
  "Providers and routing",
  "Guards and sessions",
  "Cache",
  "Configuration",
  "Audit",
];

describe("the screens of the console", () => {
  let gateway, browser, view;

  before(async () => {
    gateway = await startConsole(ALIASES);
    browser = await startBrowser();
    for (const text of ["One", "Two", MARKUP]) assert.equal((await chat(gateway.origin, "demo/chat", text)).status, 200);
    assert.equal((await chat(gateway.origin, "demo/unknown", "Hello")).status, 404);
    view = await openPage(browser, gateway.origin);
    await signIn(view.page, gateway.origin);
  });
  after(async () => {
    await browser?.close();
    await gateway?.stop();
  });

  it("has a title and a heading on each, and breaks no rule of its policy", async () => {
    const titles = new Set();
    for (const name of SCREENS) {
      await go(view.page, name);
      titles.add(await view.page.title());
    }
    assert.equal(titles.size, SCREENS.length, [...titles].join("; "));
    assert.deepEqual(view.faults, []);
  });

  it("shows spending, requests and tokens as the API has them", async () => {
    await go(view.page, "Overview");
    const { page } = view;
    const usage = (await call(gateway.origin, "/admin/v1/usage?by=model&since=24h")).body;
    const tile = (metric) => page.locator(`[data-metric="${metric}"]`).first();
    await tile("requests").getByText(String(usage.total.requests), { exact: true }).waitFor();
    assert.ok((await tile("spend").textContent()).includes("$"));
    assert.ok((await tile("tokens").textContent()).replaceAll(/\D/g, "").includes(String(usage.total.total_tokens ?? usage.total.prompt_tokens + usage.total.completion_tokens)));
    await page.getByText(/As of /).first().waitFor();
    await page.getByText(/unpriced requests: \d+/).first().waitFor();
    for (const header of ["Requests", "Tokens", "Cost"]) await page.getByRole("columnheader", { name: header }).first().waitFor();
    await page.getByRole("button", { name: "CSV" }).or(page.getByRole("link", { name: "CSV" })).first().waitFor();
  });

  it("lists requests, and shows one with its costs", async () => {
    const { page } = view;
    await go(page, "Requests");
    await page.getByLabel("Status").first().waitFor();
    const newest = (await call(gateway.origin, "/admin/v1/requests?status=ok&limit=1")).body.data[0];
    await page.locator(`a[href*="${newest.request_id}"]`).first().click();
    await page.getByRole("heading", { level: 1 }).waitFor();
    assert.ok(page.url().includes(newest.request_id));
    for (const name of ["Copy as curl", "Open in the playground"]) await page.getByRole("button", { name }).or(page.getByRole("link", { name })).first().waitFor();
    const text = await page.locator("main").textContent();
    for (const word of ["demo/chat", "Prompt", "Completion", "million"]) assert.ok(text.includes(word), `${word} is not in ${text}`);
  });

  it("makes a key, shows it once, and the key works", async () => {
    const { page } = view;
    await go(page, "Keys and teams");
    await page.getByRole("button", { name: "Create key" }).first().click();
    await page.getByLabel("Name").fill("made by clicks");
    await page.getByLabel("Budget").first().fill("5");
    await page.getByRole("button", { name: "Create", exact: true }).click();
    const shown = page.getByText(/sk-gw-\w{10,}/).or(page.locator("input[value^='sk-gw-']")).first();
    await shown.waitFor();
    const secret = /sk-[\w-]+/.exec((await shown.textContent()) || (await shown.inputValue()))[0];
    assert.equal((await chat(gateway.origin, "demo/chat", "Hello", {}, secret)).status, 200);
    await page.reload();
    await page.getByRole("heading", { level: 1 }).waitFor();
    assert.ok(!(await page.content()).includes(secret));
  });

  it("asks a model in the playground, and tells its time and cost", async () => {
    const { page } = view;
    await go(page, "Playground");
    const model = page.getByLabel("Model", { exact: true }).first();
    await model.fill("demo/chat").catch(() => model.selectOption("demo/chat"));
    await page.getByLabel("Message", { exact: true }).first().fill(`Say ${MARKUP}`);
    await page.getByRole("button", { name: "Send" }).click();
    await page.getByText(/TTFT/).first().waitFor();
    await page.getByText(/tokens\/s/).first().waitFor();
    await page.getByText(/\$\s?\d/).first().waitFor();
    assert.equal(await page.evaluate(() => window.ran), undefined);
  });

  it("compares two models", async () => {
    const { page } = view;
    await go(page, "Models");
    const ids = (await call(gateway.origin, "/v1/models?limit=2&search=demo")).body.data.map((model) => model.id).slice(0, 2);
    await page.getByLabel("Search").first().fill("demo");
    for (const id of ids) await page.getByRole("checkbox", { name: new RegExp(id.replaceAll("/", "\\/")) }).first().check();
    await page.getByRole("button", { name: /Compare/ }).or(page.getByRole("link", { name: /Compare/ })).first().click();
    await page.getByRole("heading", { level: 1, name: /Compare/ }).waitFor();
    for (const id of ids) await page.getByText(id).first().waitFor();
  });

  it("changes an alias with a diff before, and undoes it", async () => {
    const made = await call(gateway.origin, "/admin/v1/config/aliases/quick", { method: "PUT", body: { targets: ["demo/chat"] } });
    assert.ok(made.status < 300, JSON.stringify(made.body));
    const { page } = view;
    await go(page, "Configuration");
    await page.getByRole("tab", { name: "Aliases" }).or(page.getByRole("link", { name: "Aliases" })).or(page.getByRole("button", { name: "Aliases" })).first().click();
    assert.equal(await page.getByRole("button", { name: "Edit kept" }).count(), 0, "an entry of the file");
    await page.getByText(/gateway\.toml/).first().waitFor();
    await page.getByRole("button", { name: "Edit quick" }).click();
    await page.getByLabel("Targets").fill("demo/with/slashes");
    const targets = async () => (await call(gateway.origin, "/admin/v1/config/aliases/quick")).body;
    const save = page.getByRole("button", { name: /^Save/ });
    await page.getByText("demo/with/slashes").first().waitFor();
    if (!(await save.isEnabled())) await page.getByRole("button", { name: /diff|Review|Check/ }).first().click();
    await save.first().click();
    await page.getByRole("button", { name: /Undo/ }).first().waitFor();
    assert.ok(JSON.stringify(await targets()).includes("demo/with/slashes"));
    await page.getByRole("button", { name: /Undo/ }).first().click();
    const confirm = page.getByRole("alertdialog").getByRole("button", { name: /Undo/ });
    if (await confirm.isVisible().catch(() => false)) await confirm.click();
    for (;;) {
      if (JSON.stringify(await targets()).includes("demo/chat")) break;
      await page.waitForTimeout(50);
    }
  });

  it("breaks no rule of its policy and runs no foreign script on any of them", async () => {
    assert.equal(await view.page.evaluate(() => window.ran), undefined);
    assert.deepEqual(view.faults, []);
  });
});

describe("every screen", () => {
  let gateway, browser;
  before(async () => {
    gateway = await startConsole();
    browser = await startBrowser();
    for (let at = 0; at < 3; at++) await chat(gateway.origin, "demo/chat", `Hello ${at}`);
  });
  after(async () => {
    await browser?.close();
    await gateway?.stop();
  });

  for (const [width, colorScheme] of [[1440, "light"], [1440, "dark"], [390, "light"], [390, "dark"]]) {
    it(`can be read by everybody at ${width} pixels, ${colorScheme}, and needs no sideways scrolling`, async () => {
      const { context, page, faults } = await openPage(browser, gateway.origin, { width, colorScheme });
      await signIn(page, gateway.origin).catch(() => {});
      const found = [];
      for (const name of SCREENS) {
        await go(page, name);
        await page.waitForLoadState("networkidle");
        const { violations } = await new AxeBuilder({ page }).withTags(["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]).analyze();
        for (const violation of violations.filter(({ impact }) => impact === "serious" || impact === "critical")) {
          found.push(`${name}: ${violation.id} at ${violation.nodes.map((node) => node.target.join(" ")).slice(0, 3).join(", ")}`);
        }
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
        if (wide > 0) found.push(`${name}: ${wide} pixels too wide`);
      }
      assert.deepEqual(found, []);
      assert.deepEqual(faults, []);
      await context.close();
    });
  }
});
