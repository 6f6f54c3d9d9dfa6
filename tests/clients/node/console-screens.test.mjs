// The screens of the console in a real browser (Chromium): each accessible and within its policy, and the ways in and out.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { KEYS, SCREENS, startFixture } from "./console-fixture.mjs";

describe("the screens of the console", () => {
  let fixture, root, open, call, chat, logged, goTo, seriousViolations;

  before(async () => {
    fixture = await startFixture();
    ({ root, open, call, chat, logged, goTo, seriousViolations } = fixture);
  });
  after(() => fixture?.stop());

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
});
