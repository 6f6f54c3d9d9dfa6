import { describe, expect, it } from "vitest";
import { clockWords, outcomeWords } from "./drillWords";

describe("the words of a drill", () => {
  it("say what the client saw", () => {
    expect(outcomeWords({ outcome: "whole", status: 200, code: null })).toBe("the whole answer");
    expect(outcomeWords({ outcome: "error", status: 504, code: "upstream_timeout" })).toBe(
      "504 upstream_timeout",
    );
    expect(outcomeWords({ outcome: "error", status: 200, code: "upstream_timeout" })).toBe(
      "an error event: upstream_timeout",
    );
    expect(outcomeWords(null)).toBe("does not apply");
  });

  it("say how the timeouts were shortened", () => {
    expect(clockWords(1)).toBe("The timeouts were those of the configuration.");
    expect(clockWords(0.1)).toContain("1/10");
  });
});
