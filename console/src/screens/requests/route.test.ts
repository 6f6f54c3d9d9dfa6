import { expect, it } from "vitest";
import { originWords, outcomeWords, placeWords } from "./route";

it("says in words why a candidate was passed over", () => {
  expect(placeWords("away")).toMatch(/circuit was open/);
  expect(originWords("fallback")).toBe("a fallback of the request");
  expect(outcomeWords("answered")).toBe("answered");
  expect(outcomeWords("not_asked")).toMatch(/^not asked/);
  expect(outcomeWords("upstream_error")).toBe("failed: upstream_error");
});
