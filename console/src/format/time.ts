import { count, decimal, UNKNOWN } from "./numbers";

/** A duration that is given in milliseconds: `842 ms`, `12.4 s`, `3 min 12 s`. */
export function duration(ms: number | null | undefined): string {
  if (ms === null || ms === undefined || !Number.isFinite(ms)) return UNKNOWN;
  if (ms < 10) return `${decimal(ms)} ms`;
  if (ms < 10_000) return `${count(Math.round(ms))} ms`;
  if (ms < 60_000) return `${decimal(ms / 1000)} s`;
  const seconds = Math.round(ms / 1000);
  return `${count(Math.floor(seconds / 60))} min ${seconds % 60} s`;
}

const STEPS: [limit: number, seconds: number, unit: Intl.RelativeTimeFormatUnit][] = [
  [60, 1, "second"],
  [3600, 60, "minute"],
  [86_400, 3600, "hour"],
  [86_400 * 30, 86_400, "day"],
  [86_400 * 365, 86_400 * 30, "month"],
  [Number.POSITIVE_INFINITY, 86_400 * 365, "year"],
];
const RELATIVE = new Intl.RelativeTimeFormat("en", { numeric: "auto" });

/** How far a moment is from now: `3 minutes ago`, `in 2 hours`. */
export function relative(moment: string | Date, now: Date = new Date()): string {
  const seconds = Math.round((new Date(moment).getTime() - now.getTime()) / 1000);
  if (Number.isNaN(seconds)) return UNKNOWN;
  for (const [limit, size, unit] of STEPS) {
    if (Math.abs(seconds) < limit) return RELATIVE.format(Math.round(seconds / size), unit);
  }
  return UNKNOWN;
}

/** A moment in UTC, to the second: `2026-11-24 23:19:29 UTC`. */
export function utc(moment: string | Date): string {
  const date = new Date(moment);
  if (Number.isNaN(date.getTime())) return UNKNOWN;
  return `${date.toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

/** A moment with milliseconds, as rows of the log need it. */
export function utcMillis(moment: string | Date): string {
  const date = new Date(moment);
  if (Number.isNaN(date.getTime())) return UNKNOWN;
  return `${date.toISOString().slice(0, 23).replace("T", " ")} UTC`;
}
