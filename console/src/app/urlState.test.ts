import { expect, it } from "vitest";
import { oneOf, parseSearch, stringifySearch, text, texts } from "./urlState";

it("writes plain texts into the address and reads them again", () => {
  const search = { status: "failed", model: "acme/fast & good", key: undefined, team: "" };
  expect(stringifySearch(search)).toBe("?status=failed&model=acme%2Ffast+%26+good");
  expect(parseSearch(stringifySearch(search))).toEqual({ status: "failed", model: "acme/fast & good" });
  expect(stringifySearch({})).toBe("");
});

it("takes only what a screen knows", () => {
  const search = { by: "nonsense", since: "7d", sort: 3 };
  expect(oneOf(search, "by", ["model", "key"])).toBe("model");
  expect(text(search, "sort")).toBeUndefined();
  expect(texts(search, ["since", "until"])).toEqual({ since: "7d" });
});
