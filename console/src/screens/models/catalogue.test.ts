import { expect, it } from "vitest";
import { canChat, featuresOf, type Model, matching } from "./catalogue";

function model(id: string, more: Partial<Model> = {}): Model {
  return { id, object: "model", created: 0, owned_by: "demo", provider: "demo", ...more };
}

const chat = model("demo/chat", {
  name: "Demo Chat",
  category: ["chat"],
  features: ["streaming", "json_mode"],
});
const embed = model("demo/embed", { category: ["embedding"], provider: "other", features: [] });

it("knows which models answer conversations", () => {
  expect(canChat(chat)).toBe(true);
  expect(canChat(embed)).toBe(false);
  expect(canChat(model("x", { category: [] }))).toBe(true);
  expect(canChat(model("x", { category: ["realtime"] }))).toBe(false);
});

it("finds models by every word, the provider, the category and the feature", () => {
  const all = [chat, embed];
  expect(matching(all, { search: "CHAT demo" })).toEqual([chat]);
  expect(matching(all, { provider: "other" })).toEqual([embed]);
  expect(matching(all, { category: "embedding" })).toEqual([embed]);
  expect(matching(all, { feature: "json_mode" })).toEqual([chat]);
  expect(matching(all, {})).toEqual(all);
});

it("lists each feature once", () => {
  expect(featuresOf([chat, chat, embed])).toEqual(["json_mode", "streaming"]);
});
