import type { Paths } from "@/api/client";

type Answer = Paths["/admin/v1/routing/drill"]["post"]["responses"]["200"]["content"]["application/json"];
type Case = Answer["routes"][number]["cases"][number];

/** What a failing provider does. */
export const FAULTS: Record<Case["fault"], string> = {
  rate_limited: "429 with Retry-After",
  storm_of_500: "storm of 500",
  refused: "connection refused",
  stall: "stall before the first token",
  cut: "cut in mid-answer",
  bad_tool_index: "bad tool index",
  slow: "slow",
};

/** What the client saw, in words. */
export function outcomeWords(seen: Case["plain"]): string {
  if (seen === null || seen === undefined) return "does not apply";
  const code = seen.code ? ` ${seen.code}` : "";
  switch (seen.outcome) {
    case "whole":
      return "the whole answer";
    case "told_mid_stream":
      return `an error event in mid-stream:${code}`;
    case "error":
      return seen.status === 200 ? `an error event:${code}` : `${seen.status ?? "an error"}${code}`;
    case "silently_cut":
      return "half an answer without an error";
    case "wrong":
      return "a wrong answer";
    default:
      return "no end";
  }
}

/** How the drill's timeouts differ from those of the configuration. */
export function clockWords(factor: number): string {
  if (factor >= 1) return "The timeouts were those of the configuration.";
  return `All timeouts were shortened to 1/${Math.round(1 / factor)}, so that they keep their proportions.`;
}
