// What the console shows when its session or its gateway ends while a person works.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { startBrowser } from "./browser.mjs";
import { ADMIN, VIEWER, ask, openPage, signIn, startConsole } from "./console-browser.mjs";

const JSON_BODY = { "content-type": "application/json" };
const ENDED = /^Your session has ended\. Sign in again\./;

const keyField = (page) => page.getByLabel("Key", { exact: true });
const endSession = (page) => ask(page, "/auth/logout", { method: "POST", headers: JSON_BODY, body: "{}" });

async function signInAgain(page, key) {
  await keyField(page).fill(key);
  await page.getByRole("button", { name: "Sign in" }).click();
  await keyField(page).waitFor({ state: "hidden" });
}

describe("a session that ends", () => {
  let gateway, browser;
  before(async () => {
    gateway = await startConsole();
    browser = await startBrowser();
  });
  after(async () => {
    await browser?.close();
    await gateway?.stop();
  });

  it("leaves the message of the playground where it was typed", async () => {
    const { context, page, faults } = await openPage(browser, gateway.origin);
    await signIn(page, gateway.origin, ADMIN, "/ui/playground?models=demo/chat");
    await page.getByLabel("Message").fill("A long thought");
    await endSession(page);
    await page.getByRole("button", { name: "Send" }).click();
    await page.getByText(ENDED).waitFor();
    assert.match(await page.title(), /^Sign in/);
    await signInAgain(page, ADMIN);
    assert.equal(await page.getByLabel("Message").inputValue(), "A long thought");
    assert.match(await page.title(), /^Playground/);
    assert.equal(await page.getByText("API key", { exact: false }).count(), 0);
    await page.getByRole("button", { name: "Send" }).click();
    await page.getByRole("list", { name: "Conversation" }).getByText("A long thought").first().waitFor();
    assert.deepEqual(faults, []);
    await context.close();
  });

  it("leaves an open form, also one in a dialog, for the same key", async () => {
    const { context, page, faults } = await openPage(browser, gateway.origin);
    await signIn(page, gateway.origin, ADMIN, "/ui/keys");
    await page.getByRole("button", { name: "Create key" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Name").fill("half-written");
    await endSession(page);
    await dialog.getByRole("button", { name: "Create" }).click();
    await page.getByText(ENDED).waitFor();
    assert.ok(!(await dialog.isVisible()));
    await signInAgain(page, ADMIN);
    assert.equal(await dialog.getByLabel("Name").inputValue(), "half-written");
    await dialog.getByRole("button", { name: "Create" }).click();
    await page.getByRole("heading", { name: "The key of half-written" }).waitFor();
    assert.deepEqual(faults, []);
    await context.close();
  });

  it("shows nothing of it to another key", async () => {
    const { context, page } = await openPage(browser, gateway.origin);
    await signIn(page, gateway.origin, ADMIN, "/ui/keys");
    await page.getByRole("button", { name: "Create key" }).click();
    await page.getByRole("dialog").getByLabel("Name").fill("half-written");
    await endSession(page);
    await page.getByRole("dialog").getByRole("button", { name: "Create" }).click();
    await page.getByText(ENDED).waitFor();
    await signInAgain(page, VIEWER);
    await page.getByRole("heading", { level: 1, name: "Keys and teams" }).waitFor();
    assert.equal(await page.getByRole("dialog").count(), 0);
    await context.close();
  });
});

describe("a gateway that ends", () => {
  let browser;
  before(async () => {
    browser = await startBrowser();
  });
  after(() => browser?.close());

  it("leaves the console in sight, which says that nothing answers", async () => {
    const gateway = await startConsole();
    const { context, page } = await openPage(browser, gateway.origin);
    await signIn(page, gateway.origin, ADMIN, "/ui/requests?live=true");
    await page.getByText("Live: requests appear as they end.").waitFor();
    await gateway.stop();
    const alert = page.getByRole("alert").filter({ hasText: "The gateway does not answer." });
    await alert.filter({ hasText: "The page tries again every few seconds." }).getByRole("button", { name: "Repeat" }).waitFor();
    await page.getByRole("link", { name: "Audit", exact: true }).click();
    await page.getByRole("heading", { level: 1, name: "This screen is not loaded yet" }).waitFor();
    await alert.waitFor();
    await page.getByRole("button", { name: "Repeat" }).click();
    await alert.waitFor();
    await context.close();
  });
});
