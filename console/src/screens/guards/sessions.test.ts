import { expect, it } from "vitest";
import { lastsMs } from "./OneSession";
import { sessionsOf, totalOf } from "./Sessions";

it("counts a session from the begin of its first request to the end of its last one", () => {
  const rows = [
    { at: "2026-11-25T00:00:01.000Z", latency_ms: 500 },
    { at: "2026-11-25T00:00:03.000Z", latency_ms: 700 },
  ];
  expect(lastsMs(rows)).toBe(2500);
  expect(lastsMs([])).toBeNull();
});

it("leaves out the row of requests without a session", () => {
  const report = { data: [{ session: null }, { session: "run-1" }], total: { requests: 2 } };
  expect(sessionsOf(report)).toEqual([{ session: "run-1" }]);
  expect(totalOf(report)).toEqual({ requests: 2 });
  expect(sessionsOf("a,b\n")).toEqual([]);
  expect(totalOf("a,b\n")).toBeUndefined();
});
