// The sign-in with a real OpenID Connect issuer (oidc-provider) in a real browser (Chromium), and the rules of its session.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, describe, it } from "node:test";
import Provider from "oidc-provider";
import { startBrowser } from "./browser.mjs";
import { startGateway } from "./gateway.mjs";

const SESSION = "__Host-gateway-session";
const LOGIN = "__Host-gateway-sign-in";
const JSON_BODY = { "content-type": "application/json" };

/** Listens on a free port of this machine. */
const listen = (server) => new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server.address().port)));
const close = (server) =>
  new Promise((resolve) => {
    server.closeAllConnections();
    server.close(resolve);
  });

/** A port that is free now. */
async function freePort() {
  const server = createServer();
  const port = await listen(server);
  await close(server);
  return port;
}

/** An issuer whose accounts are the names that people type; `roles` has the roles of each. */
async function startIssuer(gateway, roles) {
  let handle;
  const server = createServer((request, response) => handle(request, response));
  const url = `http://127.0.0.1:${await listen(server)}`;
  const claims = (name) => ({ sub: name, preferred_username: name, roles: roles[name] ?? [] });
  const provider = new Provider(url, {
    clients: [
      { client_id: "gateway", client_secret: "secret of the gateway", redirect_uris: [`${gateway}/auth/callback`] },
    ],
    claims: { openid: ["sub"], profile: ["preferred_username", "roles"] },
    conformIdTokenClaims: false,
    findAccount: (_, name) => ({ accountId: name, claims: () => claims(name) }),
    pkce: { required: () => true },
    cookies: { keys: ["a key of the tests"] },
  });
  handle = provider.callback();
  return { url, stop: () => close(server) };
}

describe("the sign-in of a browser", () => {
  const roles = { ann: ["root"], vic: ["staff"], bob: [] };
  let origin, issuer, gateway, browser, evil;

  before(async () => {
    const port = await freePort();
    origin = `http://localhost:${port}`;
    issuer = await startIssuer(origin, roles);
    gateway = await startGateway(
      `
[identity]
public_url = "${origin}"
[[identity.issuers]]
issuer = "${issuer.url}"
audiences = ["api"]
client_id = "gateway"
client_secret = "secret of the gateway"
scopes = ["profile"]
role_claim = "roles"
roles = { admin = ["root"], viewer = ["staff"] }
`,
      { listen: `localhost:${port}` },
    );
    // Another site. Its pages try what a hostile page can try.
    evil = createServer((_, response) => response.setHeader("content-type", "text/html").end("<p>evil</p>"));
    evil.url = `http://127.0.0.1:${await listen(evil)}/`;
    // The issuer's pages name fonts of other hosts. The browser finds no host but this machine.
    browser = await startBrowser();
  });
  after(async () => {
    await browser?.close();
    await gateway?.stop();
    await issuer?.stop();
    if (evil) await close(evil);
  });

  /** A new browser in which `name` has signed in, and the violations of a page's policy that the browser told. */
  async function signIn(name, end = "session") {
    const context = await browser.newContext();
    const page = await context.newPage();
    const faults = [];
    page.on("console", (message) => message.text().includes("Content Security Policy") && faults.push(message.text()));
    await page.goto(`${origin}/auth/login`);
    await page.fill("input[name=login]", name);
    await page.fill("input[name=password]", "any");
    await page.click("button[type=submit]");
    await page.click("button[type=submit]");
    if (end === "session") {
      // The sign-in leads to the console. These tests read the page that needs no script.
      await page.waitForURL(`${origin}/ui/**`);
      await page.goto(`${origin}/auth/session`);
    } else {
      await page.waitForURL(`${origin}/auth/${end}**`);
    }
    return { context, page, faults };
  }

  const cookie = async (context, name) => (await context.cookies(origin)).find((found) => found.name === name);
  /** Asks the gateway from a page. */
  const ask = (page, path, options = {}) =>
    page.evaluate(
      async ([path, options]) => {
        const answer = await fetch(path, options);
        return { status: answer.status, body: await answer.text() };
      },
      [path, options],
    );

  it("leads to the issuer and back, and the session works in the management API", async () => {
    const { context, page, faults } = await signIn("ann");
    assert.match(await page.textContent("main"), /Signed in as ann \(admin\)/);
    assert.deepEqual(faults, [], "the pages obey their own policy");
    const { value, ...attributes } = await cookie(context, SESSION);
    assert.ok(value.length >= 43, "256 bits as base64url");
    assert.equal(attributes.httpOnly && attributes.secure && attributes.sameSite, "Strict");
    assert.equal(attributes.path, "/");
    assert.equal(await cookie(context, LOGIN), undefined, "the cookie of the sign-in is gone");
    assert.equal(await page.evaluate(() => document.cookie), "");
    assert.equal((await ask(page, "/admin/v1/keys")).status, 200);
    const body = JSON.stringify({ name: "made-in-a-browser" });
    const made = await ask(page, "/admin/v1/keys", { method: "POST", headers: JSON_BODY, body });
    assert.equal(made.status, 201, made.body);
    const log = JSON.parse((await ask(page, "/admin/v1/audit")).body).data;
    assert.deepEqual(log.map((row) => [row.action, row.actor.kind, row.actor.name]), [
      ["key.create", "oidc", "ann"],
      ["session.create", "oidc", "ann"],
    ]);
    const me = JSON.parse((await ask(page, "/v1/me")).body);
    assert.equal(me.key.role, "admin");
    const chat = JSON.stringify({ model: "demo/chat", messages: [{ role: "user", content: "x" }] });
    const spent = await ask(page, "/v1/chat/completions", { method: "POST", headers: JSON_BODY, body: chat });
    assert.equal(spent.status, 200, "a session generates within the limits of its person");
    await context.close();
  });

  it("k07: logging out ends the session, also for requests that run beside it", async () => {
    const { context, page } = await signIn("ann");
    const { value } = await cookie(context, SESSION);
    const headers = { cookie: `${SESSION}=${value}` };
    const stolen = () => fetch(`${origin}/admin/v1/keys`, { headers }).then((answer) => answer.status);
    assert.equal(await stolen(), 200);
    const out = () => ask(page, "/auth/logout", { method: "POST", headers: JSON_BODY });
    const parallel = await Promise.all([out(), out(), out()]);
    assert.deepEqual(parallel.map((answer) => answer.status), [204, 204, 204]);
    assert.equal(await stolen(), 401, "the id is worth nothing after the logout");
    assert.equal(await cookie(context, SESSION), undefined);
    await page.goto(`${origin}/auth/session`);
    assert.match(await page.textContent("main"), /not signed in/);
    await context.close();
  });

  it("k07: a sign-in begins a new session and ends the old one", async () => {
    const { context, page } = await signIn("ann");
    const first = (await cookie(context, SESSION)).value;
    await page.goto(`${origin}/auth/login`);
    // The issuer still knows the person, and asks for nothing.
    await page.waitForURL(`${origin}/ui/**`);
    const second = (await cookie(context, SESSION)).value;
    assert.notEqual(first, second);
    const status = (id) =>
      fetch(`${origin}/admin/v1/keys`, { headers: { cookie: `${SESSION}=${id}` } }).then((answer) => answer.status);
    assert.equal(await status(first), 401);
    assert.equal(await status(second), 200);
    await context.close();
  });

  it("k07: a person whose role changes loses the sessions of the old role", async () => {
    const before = await signIn("vic");
    assert.equal((await ask(before.page, "/admin/v1/keys")).status, 200);
    roles.vic = ["root"];
    const now = await signIn("vic");
    assert.match(await now.page.textContent("main"), /vic \(admin\)/);
    assert.equal((await ask(before.page, "/admin/v1/keys")).status, 401);
    roles.vic = ["staff"];
    await before.context.close();
    await now.context.close();
  });

  it("k08: no page of another site uses the session", async () => {
    const { context, page } = await signIn("ann");
    const names = async () => {
      const { data } = JSON.parse((await ask(page, "/admin/v1/keys?include_revoked=true")).body);
      return data.map((key) => key.name);
    };
    const before = await names();
    const hostile = await context.newPage();
    await hostile.goto(evil.url);
    const results = await hostile.evaluate(async (origin) => {
      const body = JSON.stringify({ name: "evil" });
      const attempts = [
        { credentials: "include" },
        { method: "POST", credentials: "include", body, mode: "no-cors" },
        { method: "POST", credentials: "include", body, headers: { "content-type": "application/json" } },
        { method: "POST", credentials: "include", body, headers: { "content-type": "text/plain" } },
      ];
      const seen = [];
      for (const attempt of attempts) {
        try {
          const answer = await fetch(`${origin}/admin/v1/keys`, attempt);
          seen.push([answer.type, answer.status]);
        } catch {
          seen.push("blocked");
        }
      }
      return seen;
    }, origin);
    for (const seen of results) {
      assert.ok(seen === "blocked" || (seen[0] === "opaque" && seen[1] === 0), JSON.stringify(results));
    }
    // A form, which a browser sends without asking first.
    await hostile.setContent(
      `<form method="post" enctype="text/plain" action="${origin}/admin/v1/keys"><input name='{"name":"evil","x":"' value='"}'></form>`,
    );
    await hostile.evaluate(() => document.forms[0].submit());
    await hostile.waitForURL(`${origin}/**`);
    assert.match(await hostile.textContent("body"), /invalid_api_key|cross_site_request/);
    assert.deepEqual(await names(), before);
    // The session that is sent nevertheless is refused by its origin.
    const { value } = await cookie(context, SESSION);
    const forged = await fetch(`${origin}/admin/v1/keys`, {
      method: "POST",
      headers: { ...JSON_BODY, cookie: `${SESSION}=${value}`, origin: evil.url.slice(0, -1) },
      body: JSON.stringify({ name: "evil" }),
    });
    assert.equal((await forged.json()).error.code, "cross_site_request");
    assert.deepEqual(await names(), before);
    await context.close();
  });

  it("k08: a key in a cookie is no key", async () => {
    for (const name of [SESSION, "authorization", "x-api-key", "api_key"]) {
      const headers = { cookie: `${name}=${gateway.key}` };
      assert.equal((await fetch(`${origin}/v1/me`, { headers })).status, 401, name);
    }
  });

  it("k09: a script that gets into a page does not run", async () => {
    const { context, page, faults } = await signIn("ann");
    await page.evaluate(() => {
      const script = document.createElement("script");
      script.textContent = "document.title = 'taken over'";
      document.body.append(script);
      document.body.insertAdjacentHTML("beforeend", "<img src=x onerror=\"document.title = 'taken over'\">");
    });
    assert.equal(await page.title(), "Model Gateway");
    assert.ok(faults.length > 0, "the browser says that it blocked a script");
    await context.close();
  });

  it("refuses a person without a role, a foreign state and a code without its browser", async () => {
    const { context, page } = await signIn("bob", "callback");
    assert.match(await page.textContent("body"), /sign_in_failed/);
    assert.equal(await cookie(context, SESSION), undefined);
    await context.close();
    const login = await fetch(`${origin}/auth/login`, { redirect: "manual" });
    const [pending] = login.headers.getSetCookie();
    assert.match(pending, new RegExp(`^${LOGIN}=.*; Secure; HttpOnly; SameSite=Lax$`));
    const to = new URL(login.headers.get("location"));
    assert.equal(to.searchParams.get("code_challenge_method"), "S256");
    assert.equal(to.searchParams.get("redirect_uri"), `${origin}/auth/callback`);
    const back = async (query, headers) => {
      const answer = await fetch(`${origin}/auth/callback?${query}`, { headers });
      assert.equal(answer.headers.getSetCookie().length, 0);
      return [answer.status, (await answer.json()).error.code];
    };
    const refused = [403, "sign_in_failed"];
    const state = to.searchParams.get("state");
    const headers = { cookie: pending.split(";")[0] };
    assert.deepEqual(await back(`code=x&state=${state}`), refused);
    assert.deepEqual(await back("code=x&state=another", headers), refused);
    assert.deepEqual(await back(`code=x&state=${state}`, headers), refused);
    assert.deepEqual(await back("error=access_denied", headers), refused);
    assert.deepEqual(await back("", headers), refused);
    assert.deepEqual(await back(`code=x&state=${state}`, { cookie: `${LOGIN}=gw1.AAAA` }), refused);
  });
});
