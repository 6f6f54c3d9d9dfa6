import { count, usd } from "@/format/numbers";

/** A guard of the configuration in words. */
export interface Rule {
  action: "stop" | "warn";
  /** The requests that it watches. */
  scope: string;
  limits: string[];
}

type Json = Record<string, unknown>;

function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function names(value: unknown): string {
  return Array.isArray(value) ? value.map(String).join(", ") : "";
}

function scopeOf(match: unknown): string {
  if (!isObject(match)) return "all requests with a session";
  const parts = [
    names(match.keys) && `keys ${names(match.keys)}`,
    names(match.aliases) && `aliases ${names(match.aliases)}`,
    names(match.teams) && `teams ${names(match.teams)}`,
  ].filter(Boolean);
  return parts.length > 0 ? parts.join("; ") : "all requests with a session";
}

const LIMITS: [member: string, words: (value: number) => string][] = [
  ["max_calls", (value) => `${count(value)} calls`],
  ["max_cost_usd", (value) => `${usd(value)} cost`],
  ["max_minutes", (value) => `${count(value)} minutes`],
  ["max_repeats", (value) => `one tool call ${count(value)} times`],
];

/** The guards of the configuration in force. */
export function rulesOf(settings: unknown): Rule[] {
  const guards = isObject(settings) ? settings.guards : undefined;
  if (!Array.isArray(guards)) return [];
  return guards.filter(isObject).map((guard) => ({
    action: guard.action === "warn" ? "warn" : "stop",
    scope: scopeOf(guard.match),
    limits: LIMITS.flatMap(([member, words]) => {
      // Amounts are texts, so that they keep their digits.
      const value = Number(guard[member] ?? Number.NaN);
      return Number.isFinite(value) ? [words(value)] : [];
    }),
  }));
}
