import { expect, it } from "vitest";
import { waterfall } from "./waterfall";

it("puts attempts where they began", () => {
  const bars = waterfall(
    [
      { started_ms: 0, latency_ms: 100 },
      { started_ms: 150, latency_ms: 50 },
    ],
    200,
  );
  expect(bars).toEqual([
    { left: 0, width: 50, startedMs: 0 },
    { left: 75, width: 25, startedMs: 150 },
  ]);
});

it("puts attempts of older rows one after the other", () => {
  const bars = waterfall([{ started_ms: null, latency_ms: 30 }, { latency_ms: 70 }], 100);
  expect(bars.map((bar) => [bar.left, bar.width, bar.startedMs])).toEqual([
    [0, 30, null],
    [30, 70, null],
  ]);
});

it("keeps a very short attempt visible and inside", () => {
  const [bar] = waterfall([{ started_ms: 1000, latency_ms: 0 }], 1000);
  expect(bar).toEqual({ left: 99.25, width: 0.75, startedMs: 1000 });
});
