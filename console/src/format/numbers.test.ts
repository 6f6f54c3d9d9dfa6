import { describe, expect, it } from "vitest";
import { bytes, change, cost, count, percent, perMillion, ratio, tokens, usd } from "./numbers";

describe("amounts", () => {
  it.each([
    [0, "$0.00"],
    [0.000000123, "$0.000000123"],
    [0.0045, "$0.0045"],
    [1234.5, "$1,234.50"],
    [-0.02, "−$0.02"],
    [null, "–"],
  ])("shows %s to the nano-dollar", (value, shown) => {
    expect(usd(value)).toBe(shown);
  });

  it("tells an unknown cost from no cost", () => {
    expect(cost(0)).toBe("$0.00");
    expect(cost(null)).toBe("unpriced");
    expect(cost(0.5, true)).toBe("$0.50 + unpriced");
  });

  it("names the unit of a price", () => {
    expect(perMillion(0.15)).toBe("$0.15 / M tokens");
    expect(perMillion(null)).toBe("unknown price");
  });
});

describe("counts", () => {
  it("separates thousands and names the unit", () => {
    expect(count(1234567)).toBe("1,234,567");
    expect(tokens(1)).toBe("1 token");
    expect(tokens(2500)).toBe("2,500 tokens");
  });

  it("shows parts and sizes", () => {
    expect(percent(0.1234)).toBe("12.3 %");
    expect(ratio(1, 0)).toBeNull();
    expect(bytes(900)).toBe("900 bytes");
    expect(bytes(1536)).toBe("1.5 KiB");
  });

  it("compares with the span before", () => {
    expect(change(150, 100)).toBe("+50 %");
    expect(change(50, 100)).toBe("−50 %");
    expect(change(5, 5)).toBe("no change");
    expect(change(3, 0)).toBeNull();
  });
});
