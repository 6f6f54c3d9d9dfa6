import { beforeEach, expect, it } from "vitest";
import { takeLinkToken } from "./linkToken";

beforeEach(() => window.history.replaceState(null, "", "/ui/"));

it("takes the token out of the address", () => {
  window.history.replaceState(null, "", "/ui/?a=b#token=abc");
  expect(takeLinkToken(window.location, window.history)).toBe("abc");
  expect(window.location.pathname + window.location.search + window.location.hash).toBe("/ui/?a=b");
});

it("leaves other fragments alone", () => {
  window.history.replaceState(null, "", "/ui/#main");
  expect(takeLinkToken(window.location, window.history)).toBeUndefined();
  expect(window.location.hash).toBe("#main");
});
