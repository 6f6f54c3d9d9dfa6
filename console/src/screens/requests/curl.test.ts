import { expect, it } from "vitest";
import { curlOf, shellWord } from "./curl";

const request = { surface: "messages", requested_model: "acme/fast", stream: true, payload: null as never };

it("keeps quotes of the body inside one word of the shell", () => {
  expect(shellWord("it's $HOME `id`")).toBe(`'it'\\''s $HOME \`id\`'`);
});

it("calls the surface of the request", () => {
  expect(curlOf(request, "https://gw.example/v1")).toBe(
    [
      "curl --no-buffer https://gw.example/v1/messages \\",
      `  -H "Authorization: Bearer $KEY" \\`,
      "  -H 'Content-Type: application/json' \\",
      `  -d '{"model":"acme/fast","max_tokens":256,"messages":[{"role":"user","content":"Hello!"}],"stream":true}'`,
    ].join("\n"),
  );
});

it("sends the stored body, unless it was cut", () => {
  const payload = {
    at: "",
    request: '{"model":"m"}',
    request_truncated: false,
    response: "",
    response_truncated: false,
  };
  expect(curlOf({ ...request, payload }, "/v1")).toContain(`-d '{"model":"m"}'`);
  expect(curlOf({ ...request, payload: { ...payload, request_truncated: true } }, "/v1")).toContain("Hello!");
});
