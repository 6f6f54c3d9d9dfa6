import { expect, it } from "vitest";
import { fillSeries, type Point } from "./series";

const point = (at: string, requests: number) => ({ at, requests }) as Point;

it("has every hour up to the newest one", () => {
  const filled = fillSeries({
    series: [point("2026-11-24T10:00:00Z", 4), point("2026-11-24T12:00:00Z", 6)],
    since: "2026-11-24T10:00:00Z",
    until: "2026-11-25T00:00:00Z",
    as_of: "2026-11-24T12:30:00Z",
    interval: "hour",
  });
  expect(filled.times.map((time) => new Date(time * 1000).getUTCHours())).toEqual([10, 11, 12]);
  expect(filled.points.map((item) => item?.requests)).toEqual([4, undefined, 6]);
});

it("has whole days", () => {
  const filled = fillSeries({
    series: [point("2026-11-20T00:00:00Z", 1)],
    since: "2026-11-20T00:00:00Z",
    until: "2026-11-23T00:00:00Z",
    as_of: "2026-11-24T12:30:00Z",
    interval: "day",
  });
  expect(filled.points.map((item) => item?.requests)).toEqual([1, undefined, undefined]);
});
