// A gateway, a browser and what the tests of the console do with them.
// CONSOLE_DIST names a folder of built pages that are shown in the place of the embedded ones.

import { existsSync, readFileSync } from "node:fs";
import { extname, join } from "node:path";
import { createRequire } from "node:module";
import { setTimeout as delay } from "node:timers/promises";
import { startBrowser } from "./browser.mjs";
import { startGateway } from "./gateway.mjs";

export const KEYS = { admin: "sk-console-admin", viewer: "sk-console-viewer", holder: "sk-console-holder" };
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
export const SCREENS = [
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
export const MARKUP = `<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>`;
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

/** Starts the gateway and the browser. `stop` ends both. */
export async function startFixture() {
  const gateway = await startGateway(CONFIG);
  const root = gateway.baseURL.replace(/\/v1$/, "");
  const browser = await startBrowser().catch(async (error) => {
    await gateway.stop();
    throw error;
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

  const stop = async () => {
    try {
      await browser.close();
    } finally {
      await gateway.stop();
    }
  };
  return { root, open, call, chat, logged, goTo, seriousViolations, stop };
}
