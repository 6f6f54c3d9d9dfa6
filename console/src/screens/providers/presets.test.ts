import { expect, it } from "vitest";
import { presetOf } from "./presets";

it("takes no plain alias for a preset", () => {
  expect(presetOf("fast", "demo/chat")).toBeNull();
  expect(presetOf("fast", { targets: ["demo/chat", { model: "demo/slow" }] })).toBeNull();
});

it("reads parameters, the system prompt and what is taken out", () => {
  const preset = presetOf("support", {
    targets: ["demo/chat"],
    defaults: { max_tokens: 400 },
    strip: ["logit_bias"],
    system: "Be brief.",
  });
  expect(preset).toEqual({
    name: "support",
    targets: [{ model: "demo/chat", condition: null }],
    defaults: [["max_tokens", 400]],
    overrides: [],
    strip: ["logit_bias"],
    system: "Be brief.",
    systemMode: "prepend",
  });
});

it("says when a target serves", () => {
  const preset = presetOf("by-size", {
    targets: [
      { model: "demo/slow", match: { prompt_tokens: { above: 20000 }, team: ["a", "b"] } },
      { model: "demo/fast", match: { header: { "x-tier": "gold" } } },
      "demo/chat",
    ],
  });
  expect(preset?.targets.map((target) => target.condition)).toEqual([
    "the prompt has more than 20000 tokens, and the team is a or b",
    "the header x-tier is gold",
    null,
  ]);
});
