import { expect, it } from "vitest";
import { asSession, forSession } from "./document";

it("sends requests to this gateway with the session", () => {
  const document = { openapi: "3.1.0", servers: [{ url: "/" }], security: [{ bearer: [] }] };
  expect(forSession(document, "https://gw.example/prefix/")).toEqual({
    openapi: "3.1.0",
    servers: [{ url: "https://gw.example/prefix" }],
  });
});

it("sends changes as JSON, also without a body", () => {
  expect(asSession({ method: "DELETE", headers: {} }).headers).toEqual({
    "content-type": "application/json",
  });
  expect(asSession({ method: "GET", headers: {} }).headers).toEqual({});
  const typed = { method: "POST", headers: { "Content-Type": "application/json" } };
  expect(asSession(typed)).toBe(typed);
});
