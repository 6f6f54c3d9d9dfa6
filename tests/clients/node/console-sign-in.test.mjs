// The ways into the console, the rules of its session, and what another site can do with it.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { startBrowser } from "./browser.mjs";
import { ADMIN, HOLDER, VIEWER, ask, call, openPage, signIn, startConsole } from "./console-browser.mjs";

const SESSION = "__Host-gateway-session";
const JSON_BODY = { "content-type": "application/json" };
const BINARY = process.env.MODEL_GATEWAY_BIN ?? fileURLToPath(new URL("../../../target/debug/model-gateway", import.meta.url));

const listen = (server) => new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server.address().port)));
const close = (server) =>
  new Promise((resolve) => {
    server.closeAllConnections();
    server.close(resolve);
  });
const cookie = async (context, origin) => (await context.cookies(origin)).find((found) => found.name === SESSION);

describe("the sign-in of the console", () => {
  let gateway, browser;
  before(async () => {
    gateway = await startConsole();
    browser = await startBrowser();
  });
  after(async () => {
    await browser?.close();
    await gateway?.stop();
  });

  it("takes a key, and keeps it nowhere in the browser", async () => {
    const { context, page, faults } = await openPage(browser, gateway.origin);
    await signIn(page, gateway.origin);
    await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
    const kept = await cookie(context, gateway.origin);
    assert.deepEqual(
      [kept.httpOnly, kept.secure, kept.sameSite, kept.path],
      [true, true, "Strict", "/"],
    );
    const storage = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie]));
    assert.ok(!storage.includes(ADMIN) && !storage.includes(kept.value), storage);
    assert.deepEqual(faults, []);
    await context.close();
  });

  it("stays signed in by a link though an earlier look at the session answers later", async () => {
    const made = await fetch(`${gateway.origin}/auth/links`, {
      method: "POST",
      headers: JSON_BODY,
      body: JSON.stringify({ key: ADMIN }),
    });
    const { token } = await made.json();
    const { context, page } = await openPage(browser, gateway.origin);
    const signedIn = page.waitForResponse((response) => response.url().endsWith("/auth/link"));
    let late;
    await page.route("**/auth/session", async (route) => {
      if (late) return route.continue();
      // The answer is made before the sign-in, and arrives after it. The page may have given it up by then.
      late = (async () => {
        const response = await route.fetch();
        await signedIn;
        await route.fulfill({ response }).catch(() => {});
      })();
      return late;
    });
    await page.goto(`${gateway.origin}/ui/#token=${token}`);
    await signedIn;
    await late;
    await page.getByRole("navigation").first().getByRole("link", { name: "Playground", exact: true }).click();
    await page.getByRole("heading", { level: 1, name: "Playground" }).waitFor();
    await context.close();
  });

  it("tells why a key is refused, in the API's own words", async () => {
    const { context, page } = await openPage(browser, gateway.origin);
    await page.goto(`${gateway.origin}/ui/`);
    await page.getByLabel("Key", { exact: true }).fill("sk-wrong");
    await page.getByRole("button", { name: "Sign in" }).click();
    const told = await page.getByRole("alert").first().textContent();
    const api = await fetch(`${gateway.origin}/auth/key`, {
      method: "POST",
      headers: { ...JSON_BODY, origin: gateway.origin },
      body: JSON.stringify({ key: "sk-wrong" }),
    });
    assert.equal(api.status, 401);
    assert.ok(told.includes((await api.json()).error.message), told);
    assert.equal(await cookie(context, gateway.origin), undefined);
    await context.close();
  });

  it("begins a new session at each sign-in and ends it at the sign-out", async () => {
    const { context, page } = await openPage(browser, gateway.origin);
    const url = new URL(gateway.origin);
    const planted = { name: SESSION, value: "p".repeat(43), url: gateway.origin.replace("http:", "https:"), secure: true };
    await context.addCookies([planted]).catch(() => {});
    await signIn(page, gateway.origin);
    const first = await cookie(context, gateway.origin);
    assert.notEqual(first.value, planted.value);
    await page.getByRole("button", { name: "Sign out" }).or(page.getByRole("menuitem", { name: "Sign out" })).first().click().catch(async () => {
      await page.getByRole("button", { name: /boss/ }).click();
      await page.getByRole("menuitem", { name: "Sign out" }).click();
    });
    await page.getByLabel("Key", { exact: true }).waitFor();
    // The server has forgotten the session, too: its cookie is worth nothing any more.
    const late = await fetch(`${gateway.origin}/admin/v1/keys`, { headers: { cookie: `${SESSION}=${first.value}`, origin: gateway.origin, host: url.host } });
    assert.equal(late.status, 401);
    await context.close();
  });

  it("shows a key holder only what their key may see", async () => {
    const { context, page, faults } = await openPage(browser, gateway.origin);
    await signIn(page, gateway.origin, HOLDER);
    const links = await page.getByRole("navigation").getByRole("link").allTextContents();
    for (const hidden of ["Overview", "Requests", "Keys and teams", "Configuration", "Audit"]) {
      assert.ok(!links.some((link) => link.trim() === hidden), `${hidden} is in ${links}`);
    }
    assert.equal((await ask(page, "/admin/v1/keys")).status, 403);
    assert.equal((await ask(page, "/v1/me")).status, 200);
    assert.deepEqual(faults, []);
    await context.close();
  });

  it("shows a viewer no button that would be refused, and refuses the calls", async () => {
    const { context, page } = await openPage(browser, gateway.origin);
    await signIn(page, gateway.origin, VIEWER, "/ui/keys");
    await page.getByRole("heading", { level: 1 }).waitFor();
    assert.equal(await page.getByRole("button", { name: "Create key" }).count(), 0);
    const made = await ask(page, "/admin/v1/keys", { method: "POST", headers: JSON_BODY, body: '{"name":"mine"}' });
    assert.equal(made.status, 403);
    await context.close();
  });

  it("ends the sessions of a key that is revoked", async () => {
    const made = await call(gateway.origin, "/admin/v1/keys", { body: { name: "short-lived", role: "admin" } });
    assert.equal(made.status, 201, JSON.stringify(made.body));
    const { context, page } = await openPage(browser, gateway.origin);
    await signIn(page, gateway.origin, made.body.key);
    assert.equal((await ask(page, "/admin/v1/keys")).status, 200);
    await call(gateway.origin, `/admin/v1/keys/${made.body.id}`, { method: "DELETE" });
    assert.equal((await ask(page, "/admin/v1/keys")).status, 401);
    await context.close();
  });
});

describe("what another site can do", () => {
  let gateway, browser, evil;
  before(async () => {
    gateway = await startConsole();
    browser = await startBrowser();
    evil = createServer((_, response) => response.setHeader("content-type", "text/html").end("<p>evil</p>"));
    evil.url = `http://localhost:${await listen(evil)}/`;
  });
  after(async () => {
    await browser?.close();
    await gateway?.stop();
    await close(evil);
  });

  it("makes no key with the session of a person who visits it", async () => {
    const { context, page } = await openPage(browser, gateway.origin);
    await signIn(page, gateway.origin);
    const other = await context.newPage();
    await other.goto(evil.url);
    await other.evaluate(async (target) => {
      const body = JSON.stringify({ name: "stolen" });
      const options = { method: "POST", body, credentials: "include" };
      await fetch(target, { ...options, mode: "no-cors", headers: { "content-type": "text/plain" } }).catch(() => {});
      await fetch(target, { ...options, headers: { "content-type": "application/json" } }).catch(() => {});
    }, `${gateway.origin}/admin/v1/keys`);
    await other.setContent(
      `<form method="post" enctype="text/plain" action="${gateway.origin}/admin/v1/keys"><input name='{"name":"stolen","x":"' value='"}'></form>`,
    );
    await Promise.all([other.waitForLoadState(), other.evaluate(() => document.forms[0].submit())]);
    const keys = await call(gateway.origin, "/admin/v1/keys");
    assert.deepEqual(keys.body.data.filter((key) => key.name === "stolen"), []);
    await context.close();
  });

  it("shows no page of the console in a frame", async () => {
    const { context, page } = await openPage(browser, gateway.origin);
    await page.goto(evil.url);
    await page.setContent(`<iframe src="${gateway.origin}/ui/"></iframe>`);
    const frame = await (await page.locator("iframe").elementHandle()).contentFrame();
    await page.waitForLoadState("networkidle");
    assert.equal(await frame.locator("main").count().catch(() => 0), 0);
    await context.close();
  });
});

describe("a link that nobody used in time", () => {
  const library = ["x86_64-linux-gnu/", "aarch64-linux-gnu/", ""].map((place) => `/usr/lib/${place}faketime/libfaketimeMT.so.1`).find(existsSync);
  let folder, gateway, browser;
  // The file is replaced at once: the gateway reads it whenever it reads the clock.
  const set = (time) => {
    writeFileSync(join(folder, "new"), `${time}\n`);
    renameSync(join(folder, "new"), join(folder, "time"));
  };
  const makeLink = async () => {
    const made = await fetch(`${gateway.origin}/auth/links`, { method: "POST", headers: JSON_BODY, body: JSON.stringify({ key: ADMIN }) });
    return `${gateway.origin}/ui/#token=${(await made.json()).token}`;
  };

  before(async () => {
    assert.ok(library, "libfaketime is not installed; ./test installs it");
    folder = mkdtempSync(join(tmpdir(), "model-gateway-time-"));
    set("+0s");
    gateway = await startConsole("", {
      LD_PRELOAD: library,
      FAKETIME_TIMESTAMP_FILE: join(folder, "time"),
      FAKETIME_NO_CACHE: "1",
      FAKETIME_DONT_FAKE_MONOTONIC: "1",
    });
    browser = await startBrowser();
  });
  after(async () => {
    await browser?.close();
    await gateway?.stop();
    rmSync(folder, { recursive: true });
  });

  it("says that it has expired, and a new one signs in", async () => {
    const old = await makeLink();
    set("+16m");
    const { context, page, faults } = await openPage(browser, gateway.origin);
    await page.goto(old);
    await page.getByRole("alert").filter({ hasText: "This sign-in link has expired." }).first().waitFor();
    assert.ok(!page.url().includes("token"), page.url());
    assert.equal(await cookie(context, gateway.origin), undefined);
    assert.deepEqual(faults, []);
    await context.close();
    const again = await openPage(browser, gateway.origin);
    await again.page.goto(await makeLink());
    await again.page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
    await again.context.close();
  });
});

describe("the link of the first start", () => {
  let folder, child, browser, link, ended;

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), "model-gateway-console-"));
    const secret = (name) => name.endsWith("_API_KEY");
    const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !secret(name)));
    child = spawn(BINARY, ["serve", "--listen", "127.0.0.1:0"], {
      cwd: folder,
      env: { ...env, HOME: folder, MODEL_GATEWAY_STORE__URL: `sqlite://${folder}/gateway.db` },
      stdio: ["ignore", "pipe", "pipe"],
    });
    ended = new Promise((resolve) => child.once("close", resolve));
    link = await new Promise((resolve, reject) => {
      ended.then(() => reject(new Error("the gateway ended without a link")));
      for (const stream of [child.stdout, child.stderr]) {
        createInterface({ input: stream }).on("line", (line) => {
          const found = /http:\/\/\S+\/ui\/\S*#\S*token\S*/.exec(line);
          if (found) resolve(found[0]);
        });
      }
    });
    browser = await startBrowser();
  });
  after(async () => {
    await browser?.close();
    child?.kill("SIGTERM");
    await ended;
    rmSync(folder, { recursive: true });
  });

  it("signs in once, leaves the address, and says afterwards that it is used", async () => {
    const origin = new URL(link).origin;
    const first = await openPage(browser, origin);
    await first.page.goto(link);
    await first.page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
    assert.ok(!first.page.url().includes("token"), first.page.url());
    assert.deepEqual(first.faults, []);
    const second = await openPage(browser, origin);
    await second.page.goto(link);
    await second.page.getByRole("alert").filter({ hasText: /used/ }).first().waitFor();
    await first.context.close();
    await second.context.close();
  });
});
