// Markup that others wrote runs nowhere in the console: what models, clients, upstreams and operators say, stored or in an address.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, describe, it } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { startBrowser } from "./browser.mjs";
import { HOLDER, call, openPage, signIn, startConsole } from "./console-browser.mjs";

/** Each would set `window.ran`, as the page, as a link, as a template or as Markdown. */
const CORPUS = [
  `<img src=x onerror="window.ran=1">`,
  `<script>window.ran=1</script>`,
  `"><script>window.ran=1</script>`,
  `'><svg/onload=window.ran=1>`,
  `</title></textarea></style><script>window.ran=1</script>`,
  `<iframe srcdoc="<script>parent.window.ran=1</script>"></iframe>`,
  `<details open ontoggle=window.ran=1>x</details>`,
  `<a href="javascript:window.ran=1" autofocus onfocus="window.ran=1">x</a>`,
  `[x](javascript:window.ran=1) ![x](x"onerror="window.ran=1)`,
  `javascript:window.ran=1//`,
  `{{constructor.constructor('window.ran=1')()}}\${window.ran=1}`,
  `<math><mtext><table><mglyph><style><img src onerror=window.ran=1></style>`,
  `<base href="https://evil.example/"><meta http-equiv="refresh" content="0;url=javascript:window.ran=1">`,
  `<form action="javascript:window.ran=1"><button autofocus>x</button></form>`,
];

/** An upstream that says the last message of the user again, as an answer with a tool. The model `fails` answers 400. Its message is the text of the corpus whose number the user sent. */
async function echoingUpstream() {
  const server = createServer(async (request, response) => {
    const parts = [];
    for await (const part of request) parts.push(part);
    const { messages, stream, model } = JSON.parse(Buffer.concat(parts));
    const said = messages.at(-1).content;
    if (model === "fails") {
      // The gateway takes quotations of the prompt out of an upstream's words.
      const words = CORPUS[Number(said)] ?? CORPUS[0];
      response.writeHead(400, { "content-type": "application/json" });
      return response.end(JSON.stringify({ error: { message: `The upstream says ${words}`, type: words, code: words } }));
    }
    const call = { index: 0, id: "call_1", type: "function", function: { name: "tool", arguments: JSON.stringify({ said }) } };
    const message = { role: "assistant", content: said, reasoning_content: said, tool_calls: [call] };
    const usage = { prompt_tokens: 5, completion_tokens: 5, total_tokens: 10 };
    const head = { id: said, created: 1, model: said };
    if (!stream) {
      response.writeHead(200, { "content-type": "application/json" });
      return response.end(JSON.stringify({ ...head, object: "chat.completion", choices: [{ index: 0, message, finish_reason: "stop" }], usage }));
    }
    response.writeHead(200, { "content-type": "text/event-stream" });
    const send = (choices, more) => response.write(`data: ${JSON.stringify({ ...head, object: "chat.completion.chunk", choices, ...more })}\n\n`);
    send([{ index: 0, delta: message, finish_reason: null }]);
    send([{ index: 0, delta: {}, finish_reason: "stop" }]);
    send([], { usage });
    response.end("data: [DONE]\n\n");
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const stop = () => new Promise((resolve) => (server.closeAllConnections(), server.close(resolve)));
  return { url: `http://127.0.0.1:${server.address().port}`, stop };
}

describe("markup of others", () => {
  let upstream, gateway, browser;

  before(async () => {
    upstream = await echoingUpstream();
    gateway = await startConsole(`log_payloads = true

[[providers]]
name = "echo"
api = "openai"
base_url = "${upstream.url}/v1"
api_key = "k"
responses = false

[[models]]
id = "echo/answers"
upstream_model = "answers"
category = ["chat"]
features = ["streaming", "function_calling"]

[[models]]
id = "echo/fails"
upstream_model = "fails"
category = ["chat"]
features = ["streaming"]
`);
    browser = await startBrowser();
  });
  after(async () => {
    await browser?.close();
    await gateway?.stop();
    await upstream?.stop();
  });

  /** A chat whose texts are markup, also the headers that the gateway keeps; the id of its request. */
  async function hostileChat(model, text, content = text) {
    const answer = await fetch(`${gateway.origin}/v1/chat/completions`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${HOLDER}`,
        "content-type": "application/json",
        "x-gateway-session": text,
        "x-client-request-id": text,
        "user-agent": text,
      },
      body: JSON.stringify({ model, user: text, messages: [{ role: "user", content }] }),
    });
    await answer.text();
    const id = answer.headers.get("x-request-id");
    // The row is written a moment after the answer.
    while ((await call(gateway.origin, `/admin/v1/requests/${id}`)).status !== 200) await delay(20);
    return id;
  }

  /** Checks that no markup ran or became an element. */
  async function clean(page, faults, where) {
    assert.equal(await page.evaluate(() => window.ran), undefined, where);
    assert.deepEqual(faults, [], where);
    // The markup is text: no element of it stands in the page.
    const made = await page.evaluate(() => document.querySelectorAll("main img, main iframe, main form[action], base, [onerror], [onload], [onfocus], [ontoggle], a[href^='javascript:']").length);
    assert.equal(made, 0, where);
  }

  const settle = (page) => page.waitForLoadState("networkidle");

  it("that is stored runs on no screen", { timeout: 180_000 }, async () => {
    const { origin } = gateway;
    const ids = [];
    for (const [number, text] of CORPUS.entries()) {
      ids.push([await hostileChat("echo/answers", text), await hostileChat("echo/fails", text, String(number)), await hostileChat(text, text)]);
      const named = await call(origin, "/admin/v1/keys", { body: { name: text, metadata: { note: text } } });
      assert.equal(named.status, 201, JSON.stringify(named.body));
      // A name of an alias has no blanks, and `$${` is a literal `${` in the configuration.
      const alias = encodeURIComponent(text.replaceAll(/\s/g, "/").replaceAll("${", () => "$${"));
      const put = await call(origin, `/admin/v1/config/aliases/${alias}`, { method: "PUT", body: { targets: ["echo/answers"] } });
      assert.equal(put.status, 201, JSON.stringify(put.body));
    }
    const { context, page, faults } = await openPage(browser, origin);
    await signIn(page, origin);
    const keys = (await call(origin, "/admin/v1/keys?limit=1000")).body.data.filter((key) => CORPUS.includes(key.name));
    assert.equal(keys.length, CORPUS.length);
    const tabs = ["", "?by=key", "requests", "models", "playground", "clients", "me", "keys", "keys?tab=teams", "providers", "guards", "guards?tab=sessions", "budgets", "budgets?tab=alerts", "configuration?tab=budgets", "cache", "configuration", "configuration?tab=history", "audit"];
    const places = [...tabs, ...ids.flat().map((id) => `requests/${id}`), ...keys.slice(0, 3).map((key) => `keys/${key.id}`)];
    for (const place of places) {
      await page.goto(`${origin}/ui/${place}`);
      await settle(page);
      await clean(page, faults, place);
    }
    await page.goto(`${origin}/ui/requests/${ids[0][0]}`);
    await page.getByText(CORPUS[0]).first().waitFor();
    await page.goto(`${origin}/ui/requests/${ids[0][1]}`);
    await page.getByText(`The upstream says ${CORPUS[0]}`).first().waitFor();
    await context.close();
  });

  it("that a model says runs in no playground", { timeout: 180_000 }, async () => {
    const { context, page, faults } = await openPage(browser, gateway.origin);
    await signIn(page, gateway.origin, undefined, "/ui/playground?models=echo/answers,echo/fails");
    for (const text of CORPUS) {
      await page.getByLabel("Message").fill(text);
      await page.getByRole("button", { name: "Send" }).click();
      await page.getByRole("article", { name: "Answer of echo/answers" }).last().getByText("Answered.").waitFor();
      await page.getByRole("article", { name: "Answer of echo/fails" }).last().getByText("Failed.").waitFor();
      await clean(page, faults, text);
    }
    await page.reload();
    await settle(page);
    await clean(page, faults, "the stored conversation");
    await context.close();
  });

  it("in an address runs on no page", { timeout: 180_000 }, async () => {
    const { origin } = gateway;
    const { context, page, faults } = await openPage(browser, origin);
    await signIn(page, origin);
    const visit = async (place, text) => {
      await page.goto(`${origin}/${place(encodeURIComponent(text))}`);
      await settle(page);
      await clean(page, faults, place(text));
    };
    const places = [
      (raw) => `ui/requests?status=${raw}&model=${raw}&error=${raw}`,
      (raw) => `ui/requests/${raw}`,
      (raw) => `ui/models/${raw}`,
      (raw) => `ui/models?q=${raw}`,
      (raw) => `ui/keys/${raw}`,
      (raw) => `ui/playground?models=${raw}&request=${raw}`,
      (raw) => `ui/providers?tab=explain&model=${raw}`,
      (raw) => `ui/?since=${raw}&by=${raw}`,
      (raw) => `ui/${raw}`,
      (raw) => `ui/#token=${raw}`,
      (raw) => `auth/callback?error=${raw}`,
      (raw) => `auth/callback?code=${raw}&state=${raw}`,
      (raw) => `docs?${raw}`,
      (raw) => `nothing/${raw}`,
      (raw) => `v1/models/${raw}`,
    ];
    // Each place gets three texts, and all places together get every text.
    for (const [at, place] of places.entries()) {
      for (const step of [0, 5, 10]) await visit(place, CORPUS[(at + step) % CORPUS.length]);
    }
    await context.close();
  });
});
