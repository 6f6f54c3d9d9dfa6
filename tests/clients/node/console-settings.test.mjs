// Settings in the console, in a real browser (Chromium): keys, presets, rules, routes, providers and the cache.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { KEYS, startFixture } from "./console-fixture.mjs";

describe("settings in the console", () => {
  let fixture, root, open, call, chat, logged, goTo, seriousViolations;

  before(async () => {
    fixture = await startFixture();
    ({ root, open, call, chat, logged, goTo, seriousViolations } = fixture);
  });
  after(() => fixture?.stop());

  it("shows presets with their targets, and opens them in the playground", async () => {
    const { page, faults, close } = await open(KEYS.admin, { path: "providers?tab=presets" });
    const preset = page.getByRole("region", { name: "Preset support" });
    await preset.getByText("demo/slow, if the prompt has more than 20000 tokens").waitFor();
    await preset.getByText("max_tokens = 40").waitFor();
    await preset.getByText("Answer in at most five sentences.").waitFor();
    assert.equal(await page.getByRole("region", { name: "Preset from-file" }).count(), 0);
    assert.deepEqual(await seriousViolations(page), []);
    await preset.getByRole("link", { name: "Try in the playground: support" }).click();
    await page.getByRole("heading", { level: 1, name: "Playground" }).waitFor();
    assert.match(page.url(), /models=support/);
    assert.deepEqual(faults, []);
    await close();
  });

  it("makes a key whose end users and tags are believed", async () => {
    const { page, close } = await open(KEYS.admin, { path: "keys" });
    await page.getByRole("button", { name: "Create key" }).click();
    await page.getByLabel("Name", { exact: true }).fill("proxy");
    await page.getByText("Team, models and other limits").click();
    await page.getByLabel("Believe the end users and tags of its requests").check();
    await page.getByRole("button", { name: "Create", exact: true }).click();
    await page.getByText(/^sk-gw-/).first().waitFor();
    const { data } = await (await call(KEYS.admin, "/admin/v1/keys")).json();
    assert.equal(data.find((key) => key.name === "proxy").trust_attribution, true);
    await close();
  });

  it("changes an alias after a look at the difference, and undoes it", async () => {
    const put = (targets) =>
      call(KEYS.admin, "/admin/v1/config/aliases/quick", { method: "PUT", body: JSON.stringify({ targets }) });
    assert.equal((await put(["demo/chat"])).status, 201);
    const { page, close } = await open(KEYS.admin, { path: "configuration" });
    assert.equal(await page.getByRole("button", { name: "Edit from-file" }).count(), 0);
    await page.getByText(/^from .*gateway\.toml:\d+/).first().waitFor();
    await page.getByRole("button", { name: "Edit quick" }).click();
    await page.getByLabel("Targets").fill("demo/chat\ndemo/nothing");
    await page.getByText("The gateway would refuse this:").waitFor();
    await page.getByLabel("Targets").fill("demo/chat\ndemo/embed");
    await page.getByRole("figure", { name: "Difference" }).getByText("demo/embed").waitFor();
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("button", { name: "Undo" }).click();
    await page.getByText("is undone").waitFor();
    const { value } = await (await call(KEYS.admin, "/admin/v1/config/aliases/quick")).json();
    assert.deepEqual(value, { targets: ["demo/chat"] });
    await close();
  });

  it("adds a rule, shows what it counts, and sends the test of an alert", async () => {
    const { page, close } = await open(KEYS.admin);
    await goTo(page, "Budgets and alerts");
    await page.getByRole("link", { name: "Add a rule" }).click();
    await page.getByLabel("Name").fill("holders");
    await page.getByLabel("Members").fill('{ "match": { "key": "holder" }, "budget_usd": 50, "rpm": 1000 }');
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText(/^holders/).first().waitFor();
    await logged(await chat("Count me in a rule."));
    await goTo(page, "Budgets and alerts");
    await page.getByRole("heading", { name: "Rule holders" }).waitFor();
    const row = page.getByRole("table", { name: "Counters of holders" }).getByRole("row", { name: /all requests of the rule/ });
    await row.getByText(/of \$50/).waitFor();
    await row.getByText(/Requests a minute: \d+ of 1,000/).waitFor();
    await page.getByRole("tab", { name: "Alerts" }).click();
    await page.getByRole("button", { name: "Send a test of nobody" }).click();
    await page.getByRole("alert").getByText(/The receiver did not take the test/).waitFor();
    await close();
  });

  it("explains a route", async () => {
    const { page, close } = await open(KEYS.admin, { path: "providers?tab=explain" });
    await page.getByLabel("Model").fill("from-file");
    await page.getByRole("button", { name: "Explain" }).click();
    await page.getByRole("table", { name: "Candidates" }).getByText("demo/chat").waitFor();
    await close();
  });

  it("drills a route", async () => {
    const { page, faults, close } = await open(KEYS.admin, { path: "providers?tab=drill" });
    await page.getByLabel("Model").fill("from-file");
    await page.getByRole("button", { name: "Drill" }).click();
    const table = page.getByRole("table", { name: "Faults and what clients see" });
    await table.getByRole("row", { name: /from-file demo connection refused 502 .* lost: no other provider/ }).waitFor();
    assert.deepEqual(await seriousViolations(page), []);
    assert.deepEqual(faults, []);
    await close();
  });

  it("probes a provider after showing the plan", async () => {
    const { page, faults, close } = await open(KEYS.admin, { path: "providers?tab=probe&provider=demo&model=demo/chat" });
    await page.getByRole("button", { name: "Show the plan" }).click();
    await page.getByRole("heading", { name: "The plan for demo/chat" }).waitFor();
    await page.getByRole("button", { name: "Probe" }).click();
    await page.getByRole("alertdialog").getByRole("button", { name: "Probe" }).click();
    await page.getByRole("table", { name: "Checks" }).getByRole("row", { name: /chat\.answer passed/ }).waitFor();
    assert.deepEqual(await seriousViolations(page), []);
    assert.deepEqual(faults, []);
    await close();
  });

  it("empties the cache, shows that in the audit log, and shows a session in time order", async () => {
    const session = { "x-gateway-session": "a run" };
    for (const text of ["one", "two"]) {
      const body = JSON.stringify({ model: "demo/chat", messages: [{ role: "user", content: text }] });
      const headers = { authorization: `Bearer ${KEYS.holder}`, "content-type": "application/json", ...session };
      await logged(await fetch(`${root}/v1/chat/completions`, { method: "POST", headers, body }));
    }
    const { page, close } = await open(KEYS.admin, { path: "cache" });
    await page.getByRole("button", { name: "Empty the cache" }).click();
    await page.getByRole("alertdialog").getByRole("button", { name: "Empty the cache" }).click();
    await page.getByText("All answers are removed.").waitFor();
    await goTo(page, "Audit");
    await page.getByRole("cell", { name: "emptied the cache" }).first().waitFor();
    await goTo(page, "Guards and sessions");
    await page.getByRole("link", { name: "a run" }).click();
    const times = page.getByRole("table", { name: /oldest first/ }).getByRole("link");
    await times.nth(1).waitFor();
    const [first, second] = await times.allInnerTexts();
    assert.ok(first < second, `${first} is not before ${second}`);
    await close();
  });
});
