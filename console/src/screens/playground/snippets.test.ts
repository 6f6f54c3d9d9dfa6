import { expect, it } from "vitest";
import { codeFor, python } from "./snippets";

const body = { model: "demo/chat", messages: [{ role: "user", content: "it's" }], stream: true, cache: true };

it("writes a shell command that keeps quotes", () => {
  expect(codeFor("curl", "chat", "https://gw.example/v1", body)).toBe(
    [
      "curl --no-buffer https://gw.example/v1/chat/completions \\",
      `  -H "Authorization: Bearer $KEY" \\`,
      "  -H 'Content-Type: application/json' \\",
      `  -d '{"model":"demo/chat","messages":[{"role":"user","content":"it'\\''s"}],"stream":true,"cache":true}'`,
    ].join("\n"),
  );
});

it("gives the gateway's own members to the OpenAI SDK as extra_body", () => {
  const code = codeFor("python", "chat", "https://gw.example/v1", body);
  expect(code).toContain('base_url="https://gw.example/v1"');
  expect(code).toContain('    model="demo/chat",\n');
  expect(code).toContain('    extra_body={\n        "cache": True,\n    },\n');
  expect(code).not.toContain("stream");
});

it("gives Anthropic's SDK the address without /v1", () => {
  expect(codeFor("typescript", "messages", "https://gw.example/v1", body)).toContain(
    'new Anthropic({ baseURL: "https://gw.example", apiKey',
  );
});

it("writes Python's own words", () => {
  expect(python([null, true, false, "a", 1.5, {}])).toBe(
    '[\n    None,\n    True,\n    False,\n    "a",\n    1.5,\n    {},\n]',
  );
});
