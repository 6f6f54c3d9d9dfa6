export interface Timed {
  started_ms?: number | null;
  latency_ms: number;
}

export interface Bar {
  /** Percent of the whole width. */
  left: number;
  width: number;
  /** When it began, in milliseconds after the request, or nothing when that is not known. */
  startedMs: number | null;
}

/** A bar is at least this wide, so that the reader sees it. */
const THINNEST = 0.75;

/** Where the bars of the attempts stand. An attempt whose beginning is unknown follows the one before it. */
export function waterfall(attempts: readonly Timed[], totalMs: number): Bar[] {
  let previousEnd = 0;
  const spans = attempts.map((attempt) => {
    const start = attempt.started_ms ?? previousEnd;
    const end = start + attempt.latency_ms;
    previousEnd = Math.max(previousEnd, end);
    return { start, end, startedMs: attempt.started_ms ?? null };
  });
  const whole = Math.max(totalMs, previousEnd, 1);
  return spans.map(({ start, end, startedMs }) => {
    const width = Math.max(((end - start) / whole) * 100, THINNEST);
    return { left: Math.min((start / whole) * 100, 100 - width), width, startedMs };
  });
}
