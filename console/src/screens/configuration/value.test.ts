import { expect, it } from "vitest";
import { memberText, parseMembers, targetsText, withMember, withTargets } from "./value";

it("reads an object and says why something is none", () => {
  expect(parseMembers(' {"a": 1} ')).toEqual({ value: { a: 1 } });
  expect(parseMembers("")).toEqual({ value: {} });
  expect(parseMembers("[1]").problem).toBe("This must be a JSON object.");
  expect(parseMembers("{a").problem).toMatch(/^This is no JSON/);
});

it("edits the targets of an alias and keeps its other members", () => {
  expect(targetsText({ targets: "demo/chat" })).toBe("demo/chat");
  expect(targetsText({ targets: ["a/b", "c/d"] })).toBe("a/b\nc/d");
  expect(withTargets({ targets: "a/b", agent: true }, "c/d, e/f\n")).toEqual({
    targets: ["c/d", "e/f"],
    agent: true,
  });
});

it("sets a member by its text and takes it away without one", () => {
  const value = { api_key: "***", timeouts: { idle_ms: 1 } };
  expect(memberText(value, "api_key")).toBe("***");
  expect(memberText(value, "timeouts")).toBe("");
  expect(withMember(value, "base_url", " https://x.example/v1 ")).toEqual({
    ...value,
    base_url: "https://x.example/v1",
  });
  expect(withMember(value, "api_key", "")).toEqual({ timeouts: { idle_ms: 1 } });
});
