import { expect, it } from "vitest";
import { originWords, outcomeWords, placeWords } from "./route";

it("says in words why a candidate was passed over", () => {
  expect(placeWords("away")).toMatch(/circuit was open/);
  expect(originWords("fallback")).toBe("a fallback of the request");
  expect(outcomeWords("answered")).toBe("answered");
  expect(outcomeWords("not_asked")).toBe("not asked");
  expect(outcomeWords("cancelled")).toBe("cancelled: another candidate was faster");
  expect(outcomeWords("upstream_error")).toBe("failed: upstream_error");
});
