import type { RequestDetail } from "@/api/pending";

type Candidate = NonNullable<RequestDetail["route"]>["candidates"][number];

const ORIGINS: Record<Candidate["origin"], string> = {
  requested: "asked for",
  fallback: "a fallback of the request",
  upgrade: "an upgrade that the request allowed",
};

const PLACES: Record<Candidate["tier"], string> = {
  explored: "first, because it was not measured for a while",
  able: "by the strategy",
  ramping: "behind the others: it has recovered recently",
  away: "behind the others: its circuit was open, or it rested",
  upgrade: "behind the models that the request names",
  upgrade_away: "last: its circuit was open, or it rested",
};

/** How a candidate came into the plan. */
export const originWords = (origin: Candidate["origin"]): string => ORIGINS[origin] ?? origin;

/** The reason for a candidate's place. */
export const placeWords = (tier: Candidate["tier"]): string => PLACES[tier] ?? tier;

/** The outcome of a candidate. */
export function outcomeWords(outcome: string): string {
  if (outcome === "answered") return "answered";
  if (outcome === "not_asked") return "not asked";
  if (outcome === "cancelled") return "cancelled: another candidate was faster";
  return `failed: ${outcome}`;
}
