import type { Run } from "./run";

/** The smallest, the middle and the greatest of some figures. */
export interface Spread {
  min: number;
  median: number;
  max: number;
}

export function spreadOf(values: readonly (number | null)[]): Spread | null {
  const known = values.filter((value) => value !== null).toSorted((a, b) => a - b);
  const [min, max] = [known[0], known.at(-1)];
  if (min === undefined || max === undefined) return null;
  const upper = known[Math.floor(known.length / 2)] ?? max;
  const lower = known[Math.ceil(known.length / 2) - 1] ?? min;
  return { min, median: (lower + upper) / 2, max };
}

/** Tokens of the answer a second, from its first token to its end. */
export function speedOf(run: Pick<Run, "answer" | "ttftMs" | "totalMs">): number | null {
  const tokens = run.answer.completionTokens;
  if (tokens === null || tokens === 0 || run.totalMs === null) return null;
  const generating = run.totalMs - (run.ttftMs ?? 0);
  const ms = generating >= 1 ? generating : run.totalMs;
  return ms > 0 ? (tokens / ms) * 1000 : null;
}

/** How many different answers there are. */
export function differentAnswers(runs: readonly Run[]): number {
  return new Set(runs.filter((run) => run.state === "done").map((run) => run.answer.text)).size;
}
