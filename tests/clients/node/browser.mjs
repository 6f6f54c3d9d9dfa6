// Debian's Chromium, for the tests of pages.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { chromium } from "playwright-core";

const PLACES = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

const ONLY_THIS_MACHINE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1";

/** Starts Chromium, which finds no host but this machine. */
export function startBrowser() {
  const executablePath = PLACES.find(existsSync);
  assert.ok(executablePath, "Chromium is not installed; ./test node installs it");
  return chromium.launch({ executablePath, args: ["--no-sandbox", ONLY_THIS_MACHINE] });
}
