import { expect, it } from "vitest";
import { duration, relative, utc, utcMillis } from "./time";

it.each([
  [0.4, "0.4 ms"],
  [842, "842 ms"],
  [12_400, "12.4 s"],
  [192_000, "3 min 12 s"],
  [null, "–"],
])("shows the duration %s", (ms, shown) => {
  expect(duration(ms)).toBe(shown);
});

it("shows moments in UTC and as a distance", () => {
  expect(utc("2026-11-24T23:19:29.414Z")).toBe("2026-11-24 23:19:29 UTC");
  expect(utcMillis("2026-11-24T23:19:29.414Z")).toBe("2026-11-24 23:19:29.414 UTC");
  const now = new Date("2026-11-24T12:00:00Z");
  expect(relative("2026-11-24T11:57:00Z", now)).toBe("3 minutes ago");
  expect(relative("2026-11-26T12:00:00Z", now)).toBe("in 2 days");
  expect(relative("no time", now)).toBe("–");
});
