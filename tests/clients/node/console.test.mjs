// The console in a real browser (Chromium): each screen's main task done by clicks, its accessibility, and its policy.
// CONSOLE_DIST names a folder of built pages that are shown in the place of the embedded ones.

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { extname, join } from "node:path";
import { after, before, describe, it } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { createRequire } from "node:module";
import { startBrowser } from "./browser.mjs";
import { startGateway } from "./gateway.mjs";

const KEYS = { admin: "sk-console-admin", viewer: "sk-console-viewer", holder: "sk-console-holder" };
const CONFIG = `
[[aliases]]
name = "from-file"
targets = ["demo/chat"]
[[aliases]]
name = "support"
targets = [{ model = "demo/slow", match = { prompt_tokens = { above = 20000 } } }, "demo/chat"]
defaults = { max_tokens = 40 }
system = "Answer in at most five sentences."
[[keys]]
name = "root"
key = "${KEYS.admin}"
role = "admin"
[[keys]]
name = "watcher"
key = "${KEYS.viewer}"
role = "viewer"
[[keys]]
name = "holder"
key = "${KEYS.holder}"
log_payloads = true
trust_attribution = true
[[alerts]]
name = "nobody"
on = ["budget:1"]
format = "slack"
url = "http://127.0.0.1:9/hook"
allow_private_network = true
`;
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
  "Budgets and alerts",
  "Guards and sessions",
  "Cache",
  "Configuration",
  "Audit",
];
const MARKUP = `<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>`;
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" };

/** Shows the pages of a folder at /ui/, under the policy that the gateway sends. */
async function showFolder(context, root, folder) {
  const policy = (await fetch(`${root}/ui/`)).headers.get("content-security-policy");
  await context.route(`${root}/ui/**`, (route) => {
    const path = decodeURIComponent(new URL(route.request().url()).pathname).slice("/ui/".length);
    const isFile = path !== "" && existsSync(join(folder, path));
    const depth = path.split("/").length - 1;
    const content = readFileSync(join(folder, isFile ? path : "index.html"));
    const body = isFile ? content : content.toString().replaceAll('="./', `="${"../".repeat(depth)}`);
    const type = TYPES[extname(isFile ? path : "index.html")] ?? "text/plain";
    return route.fulfill({ body, contentType: type, headers: { "content-security-policy": policy } });
  });
}

describe("the console", () => {
  let gateway, root, browser;

  before(async () => {
    gateway = await startGateway(CONFIG);
    root = gateway.baseURL.replace(/\/v1$/, "");
    browser = await startBrowser();
  });
  after(async () => {
    await browser?.close();
    await gateway?.stop();
  });

  /** A page of a fresh browser, signed in with a key. `faults` collects refused policies, errors and foreign addresses. */
  async function open(key, { width = 1440, theme = "light", path = "" } = {}) {
    const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme: theme });
    if (process.env.CONSOLE_DIST) await showFolder(context, root, process.env.CONSOLE_DIST);
    const page = await context.newPage();
    page.setDefaultTimeout(15_000);
    const faults = [];
    page.on("pageerror", (error) => faults.push(error.message));
    page.on("console", (message) => {
      if (/Content Security Policy/i.test(message.text())) faults.push(message.text());
    });
    page.on("request", (request) => {
      if (!request.url().startsWith(root) && !/^(data|blob):/.test(request.url())) faults.push(request.url());
    });
    await page.goto(`${root}/ui/${path}`);
    if (key) {
      await page.getByLabel("Key", { exact: true }).fill(key);
      await page.getByRole("button", { name: "Sign in", exact: true }).click();
      await page.locator("nav").waitFor({ state: "attached" });
    }
    return { page, faults, close: () => context.close() };
  }

  const call = (key, path, init = {}) =>
    fetch(`${root}${path}`, {
      ...init,
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    });
  const chat = (content, key = KEYS.holder) =>
    call(key, "/v1/chat/completions", {
      method: "POST",
      body: JSON.stringify({ model: "demo/chat", messages: [{ role: "user", content }] }),
    });

  /** The id of an answer's request, once the log has it: some 100 ms after the answer. */
  async function logged(answer) {
    const id = answer.headers.get("x-request-id");
    // The time limit of the test ends it.
    while (!(await call(KEYS.admin, `/admin/v1/requests/${id}`)).ok) await delay(20);
    return id;
  }

  async function seriousViolations(page) {
    const session = await page.context().newCDPSession(page);
    await session.send("Runtime.evaluate", { expression: AXE });
    const expression = `axe.run(document).then((found) => JSON.stringify(found.violations
      .filter((rule) => ["serious", "critical"].includes(rule.impact)).map((rule) => [rule.id, rule.nodes[0].html])))`;
    const { result } = await session.send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
    return JSON.parse(result.value);
  }

  const goTo = async (page, screen) => {
    const menu = page.getByRole("button", { name: "Menu" });
    if (await menu.isVisible()) await menu.click();
    await page.getByRole("navigation").getByRole("link", { name: screen, exact: true }).click();
    await page.getByRole("heading", { level: 1, name: screen }).waitFor();
  };

  for (const [width, theme] of [[1440, "light"], [1440, "dark"], [390, "light"], [390, "dark"]]) {
    it(`has every screen at ${width} px, ${theme}, accessible and within its policy`, async () => {
      await logged(await chat("Hello!"));
      const { page, faults, close } = await open(KEYS.admin, { width, theme });
      for (const screen of SCREENS) {
        await goTo(page, screen);
        await page.waitForLoadState("networkidle");
        assert.match(await page.title(), new RegExp(`^${screen}`));
        assert.deepEqual(await seriousViolations(page), [], screen);
        const overflow = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
        assert.ok(overflow <= 0, `${screen} is wider than the window by ${overflow} px`);
      }
      assert.deepEqual(faults, []);
      await close();
    });
  }

  it("keeps the address at the sign-in, says why it refuses a key, and signs out", async () => {
    const { page, close } = await open(undefined, { path: "requests?status=ok" });
    await page.getByLabel("Key", { exact: true }).fill("sk-gw-wrong");
    await page.getByRole("button", { name: "Sign in", exact: true }).click();
    await page.getByRole("alert").getByText("invalid_api_key").waitFor();
    await page.getByLabel("Key", { exact: true }).fill(KEYS.admin);
    await page.getByRole("button", { name: "Sign in", exact: true }).click();
    await page.getByRole("heading", { level: 1, name: "Requests" }).waitFor();
    assert.equal(page.url(), `${root}/ui/requests?status=ok`);
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByLabel("Key", { exact: true }).waitFor();
    assert.equal((await page.request.get(`${root}/admin/v1/keys`)).status(), 401);
    await close();
  });

  it("goes to a screen and to a request by the command palette, with the keyboard alone", async () => {
    const id = await logged(await chat("Hello!"));
    const { page, faults, close } = await open(KEYS.admin);
    const palette = async (typed) => {
      await page.keyboard.press("Control+k");
      const field = page.getByRole("combobox", { name: "Screen, request or key" });
      await field.waitFor();
      await page.keyboard.type(typed);
      await page.getByRole("option").first().waitFor();
      await page.keyboard.press("Enter");
      await field.waitFor({ state: "hidden" });
    };
    await palette("audi");
    await page.getByRole("heading", { level: 1, name: "Audit" }).waitFor();
    await palette(id);
    await page.waitForURL((url) => url.pathname.includes(id));
    assert.deepEqual(faults, []);
    await close();
  });

  it("signs in once with a link, and takes the token out of the address", async () => {
    const made = await call(KEYS.admin, "/auth/links", { method: "POST", body: JSON.stringify({ key: KEYS.admin }) });
    const { token } = await made.json();
    const first = await open(undefined, { path: `#token=${token}` });
    await first.page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
    assert.equal(first.page.url(), `${root}/ui/`);
    await first.close();
    const second = await open(undefined, { path: `#token=${token}` });
    await second.page.getByRole("alert").getByText(/used already/).waitFor();
    assert.ok(await second.page.getByLabel("Key", { exact: true }).isVisible());
    await second.close();
  });

  it("names the end users and tags of requests, and leads to their other requests", async () => {
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

  it("leads from the list of the API to the reference", async () => {
    const { page, close } = await open(KEYS.admin);
    await page.goto(`${root}/docs`);
    await page.getByRole("link", { name: "API reference in the console" }).click();
    await page.getByRole("heading", { level: 1, name: "API reference" }).waitFor();
    assert.equal(page.url(), `${root}/ui/reference`);
    await close();
  });

  it("shows a viewer nothing that would be refused, and a holder only the own key", async () => {
    const viewer = await open(KEYS.viewer, { path: "keys" });
    await viewer.page.getByRole("table", { name: "Keys" }).waitFor();
    assert.equal(await viewer.page.getByRole("button", { name: "Create key" }).count(), 0);
    await goTo(viewer.page, "Configuration");
    await viewer.page.getByText("from-file").waitFor();
    assert.equal(await viewer.page.getByRole("button", { name: /^(Add|Edit|Remove|Undo)/ }).count(), 0);
    await viewer.close();
    const holder = await open(KEYS.holder);
    await holder.page.getByRole("heading", { level: 1, name: "My key" }).waitFor();
    assert.equal(await holder.page.getByRole("link", { name: "Keys and teams" }).count(), 0);
    await holder.close();
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
