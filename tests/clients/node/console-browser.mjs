// A gateway with the demo provider, and a browser that notes everything that a page of the console must not do.

import { startGateway } from "./gateway.mjs";

export const ADMIN = "sk-console-test-admin";
export const VIEWER = "sk-console-test-viewer";
export const HOLDER = "sk-console-test-holder";

const KEYS = `
[[keys]]
name = "boss"
key = "${ADMIN}"
role = "admin"

[[keys]]
name = "auditor"
key = "${VIEWER}"
role = "viewer"

[[keys]]
name = "holder"
key = "${HOLDER}"
`;

/** The markup that a hostile model, client or provider could write. A script of it would set `window.ran`. */
export const MARKUP = `<img src=x onerror="window.ran=1"><script>window.ran=1</script><svg onload="window.ran=1">`;

/** A gateway whose origin is `origin`. `extra` are further lines of its configuration, `more` further variables of its environment. */
export async function startConsole(extra = "", more = {}) {
  const gateway = await startGateway(KEYS + extra, { more });
  return { ...gateway, origin: gateway.baseURL.slice(0, -"/v1".length) };
}

/** Calls the gateway as a program does. */
export async function call(origin, path, { key = ADMIN, method, body } = {}) {
  const answer = await fetch(origin + path, {
    method: method ?? (body === undefined ? "GET" : "POST"),
    headers: { authorization: `Bearer ${key}`, ...(body === undefined ? {} : { "content-type": "application/json" }) },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  return { status: answer.status, body: answer.headers.get("content-type")?.includes("json") ? await answer.json() : await answer.text() };
}

/** A chat of `model`; the answer. */
export const chat = (origin, model, text, more = {}, key = HOLDER) =>
  call(origin, "/v1/chat/completions", { key, body: { model, messages: [{ role: "user", content: text }], ...more } });

/**
 * A page of a new browser profile. `faults` notes violations of the page's policy, errors of its scripts, requests to other
 * hosts and dialogs: a test ends with none.
 */
export async function openPage(browser, origin, { width = 1440, height = 900, colorScheme = "light" } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme });
  const page = await context.newPage();
  const faults = [];
  page.on("console", (message) => message.text().includes("Content Security Policy") && faults.push(message.text()));
  page.on("pageerror", (error) => faults.push(String(error)));
  page.on("dialog", (dialog) => {
    faults.push(`a dialog: ${dialog.message()}`);
    return dialog.dismiss();
  });
  page.on("request", (request) => {
    const url = new URL(request.url());
    if (url.protocol.startsWith("http") && url.origin !== new URL(origin).origin) faults.push(`a request to ${url.origin}`);
  });
  return { context, page, faults };
}

/** Signs in with a key, as a person does. */
export async function signIn(page, origin, key = ADMIN, at = "/ui/") {
  await page.goto(origin + at);
  await page.getByLabel("Key", { exact: true }).fill(key);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("navigation").first().waitFor();
}

/** Opens a screen by its link in the navigation, behind the menu where the page is narrow. */
export async function go(page, name) {
  const link = page.getByRole("navigation").getByRole("link", { name, exact: true });
  const menu = page.getByRole("button", { name: "Menu" });
  if (!(await link.first().isVisible()) && (await menu.isVisible())) await menu.click();
  await link.first().click();
  await page.getByRole("heading", { level: 1, name }).waitFor();
}

/** Asks the gateway from a page, with the session of the page. */
export const ask = (page, path, options = {}) =>
  page.evaluate(
    async ([path, options]) => {
      const answer = await fetch(path, options);
      return { status: answer.status, body: await answer.text() };
    },
    [path, options],
  );
