// Where the console lies: under the prefix of a proxy, and how much a browser loads.

import assert from "node:assert/strict";
import { createServer, request as ask } from "node:http";
import { gzipSync } from "node:zlib";
import { after, before, describe, it } from "node:test";
import { startBrowser } from "./browser.mjs";
import { go, openPage, signIn, startConsole } from "./console-browser.mjs";

const KIB = 1024;

describe("the place of the console", () => {
  let gateway, browser, proxy, prefixed;

  before(async () => {
    gateway = await startConsole();
    browser = await startBrowser();
    // A reverse proxy that serves the gateway below /tools/gateway/ and knows nothing else of it.
    proxy = createServer((incoming, outgoing) => {
      if (!incoming.url.startsWith("/tools/gateway/")) return outgoing.writeHead(404).end("outside the prefix");
      const path = incoming.url.slice("/tools/gateway".length);
      const target = new URL(gateway.origin);
      const forwarded = ask({ host: target.hostname, port: target.port, path, method: incoming.method, headers: incoming.headers }, (answer) => {
        outgoing.writeHead(answer.statusCode, answer.rawHeaders);
        answer.pipe(outgoing);
      });
      forwarded.on("error", () => outgoing.destroy());
      incoming.pipe(forwarded);
    });
    const port = await new Promise((resolve) => proxy.listen(0, "127.0.0.1", () => resolve(proxy.address().port)));
    prefixed = `http://127.0.0.1:${port}`;
  });
  after(async () => {
    await browser?.close();
    await gateway?.stop();
    proxy?.closeAllConnections();
    proxy?.close();
  });

  it("may be any prefix and any port", async () => {
    const { context, page, faults } = await openPage(browser, prefixed);
    const outside = [];
    page.on("request", (request) => new URL(request.url()).pathname.startsWith("/tools/gateway/") || outside.push(request.url()));
    await signIn(page, prefixed, undefined, "/tools/gateway/ui/");
    for (const name of ["Requests", "Models", "Configuration"]) await go(page, name);
    await page.reload();
    await page.getByRole("heading", { level: 1, name: "Configuration" }).waitFor();
    assert.deepEqual(outside, []);
    assert.deepEqual(faults, []);
    await context.close();
  });

  it("needs less than 250 KiB of compressed JavaScript for the first page", async () => {
    const { context, page } = await openPage(browser, gateway.origin);
    const scripts = [];
    page.on("response", (answer) => answer.url().endsWith(".js") && scripts.push(answer));
    await signIn(page, gateway.origin);
    await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
    await page.waitForLoadState("networkidle");
    const sizes = await Promise.all(scripts.map(async (script) => gzipSync(await script.body(), { level: 9 }).length));
    const total = sizes.reduce((sum, size) => sum + size, 0);
    console.log(`first page: ${sizes.length} scripts, ${(total / KIB).toFixed(1)} KiB as gzip`);
    assert.ok(total > 0 && total < 250 * KIB, `${total} bytes`);
    await context.close();
  });
});
