import { expect, it } from "vitest";
import { bareName, type Endpoint, originOf, PLACEHOLDER } from "./endpoint";
import { keyIdOf } from "./newKey";
import { CLIENTS } from "./snippets";

const ENDPOINT: Endpoint = {
  origin: "https://gw.example/prefix",
  model: "acme/it's",
  key: PLACEHOLDER,
  context: 64_000,
  maxOutput: 8000,
};

function textOf(id: string, endpoint = ENDPOINT): string {
  const client = CLIENTS.find((other) => other.id === id);
  return (client?.steps(endpoint) ?? []).map((step) => step.code).join("\n");
}

it("fills every client in with the address and the key or the model", () => {
  for (const client of CLIENTS) {
    const text = textOf(client.id);
    expect(text, client.id).toContain("https://gw.example/prefix");
    expect(text, client.id).toContain(PLACEHOLDER);
  }
});

it("quotes values for the shell", () => {
  expect(textOf("aider")).toContain(`export AIDER_MODEL='openai/acme/it'\\''s'`);
});

it("writes for Claude Code what `model-gateway setup claude` prints", () => {
  const text = textOf("claude-code", { ...ENDPOINT, model: "demo/chat", maxOutput: 131_072, context: null });
  expect(text).toContain("export ANTHROPIC_BASE_URL='https://gw.example/prefix'\n");
  expect(text).toContain("export CLAUDE_CODE_MAX_OUTPUT_TOKENS='32000'\n");
  expect(text).not.toContain("CLAUDE_CODE_MAX_CONTEXT_TOKENS");
  expect(text).toContain("unset ANTHROPIC_API_KEY\n");
});

it("writes Codex' configuration with the context window", () => {
  expect(textOf("codex")).toContain(
    [
      `model = "acme/it's"`,
      "model_context_window = 64000",
      'model_provider = "model-gateway"',
      "",
      "[model_providers.model-gateway]",
    ].join("\n"),
  );
});

it("finds the address that clients reach", () => {
  const apart = { same_origin: false, listen: "0.0.0.0:4000" };
  expect(originOf("https://gw.example/p/", { same_origin: true, listen: "" }, "gw.example")).toBe(
    "https://gw.example/p",
  );
  expect(originOf("https://gw.example:5000/", apart, "gw.example")).toBe("http://gw.example:4000");
  expect(originOf("", { ...apart, listen: "10.0.0.1:4000" }, "x")).toBe("http://10.0.0.1:4000");
});

it("takes the provider off a model's name", () => {
  expect(bareName("openai/gpt-6-luna")).toBe("gpt-6-luna");
  expect(bareName("fast")).toBe("fast");
});

it("knows a key by the first characters of its secret", () => {
  expect(keyIdOf("sk-gw-Ab12CdEfGhIj")).toBe("sk-gw-Ab12Cd");
});
