import { expect, it } from "vitest";
import { tomlOf } from "./toml";

it("writes an entry as gateway.toml has it", () => {
  expect(tomlOf("models", "acme/fast", { pricing: { prompt: 0.15, "per image": 1 }, stream: true })).toBe(
    '[[models]]\nid = "acme/fast"\npricing = { prompt = 0.15, "per image" = 1 }\nstream = true\n',
  );
  expect(tomlOf("aliases", "fast", { targets: ["a/b", "c/d"] })).toBe(
    '[[aliases]]\nname = "fast"\ntargets = ["a/b", "c/d"]\n',
  );
});
