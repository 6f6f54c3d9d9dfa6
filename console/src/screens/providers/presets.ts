/** A target of an alias, with the condition under which it serves. */
export interface Target {
  model: string;
  /** Null: it serves every request for which no conditional target is there. */
  condition: string | null;
}

/** An alias that changes requests, or chooses its target by them. */
export interface Preset {
  name: string;
  targets: Target[];
  defaults: [name: string, value: unknown][];
  overrides: [name: string, value: unknown][];
  strip: string[];
  system: string | null;
  systemMode: string;
}

type Members = Record<string, unknown>;

const isMembers = (value: unknown): value is Members =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const list = (value: unknown): unknown[] =>
  Array.isArray(value) ? value : value === undefined ? [] : [value];
const members = (value: unknown): [string, unknown][] => (isMembers(value) ? Object.entries(value) : []);

/** The preset of a configured alias. Null: it is a plain alias. */
export function presetOf(name: string, entry: unknown): Preset | null {
  const value = isMembers(entry) ? entry : { targets: entry };
  const preset: Preset = {
    name,
    targets: list(value.targets).map(targetOf),
    defaults: members(value.defaults),
    overrides: members(value.overrides),
    strip: list(value.strip).map(String),
    system: typeof value.system === "string" ? value.system : null,
    systemMode: typeof value.system_mode === "string" ? value.system_mode : "prepend",
  };
  const changes = preset.defaults.length + preset.overrides.length + preset.strip.length;
  const isPreset =
    changes > 0 || preset.system !== null || preset.targets.some(({ condition }) => condition !== null);
  return isPreset ? preset : null;
}

function targetOf(target: unknown): Target {
  if (!isMembers(target)) return { model: String(target), condition: null };
  const conditions = members(target.match).map(([kind, value]) => conditionText(kind, value));
  return { model: String(target.model), condition: conditions.length > 0 ? conditions.join(", and ") : null };
}

const KINDS: Record<string, string> = {
  tag: "the tag is",
  key: "the key is",
  team: "the team is",
  model_feature: "the request needs",
};

/** One condition in words. */
function conditionText(kind: string, value: unknown): string {
  if (kind === "header") {
    return members(value)
      .map(([name, text]) => `the header ${name} is ${String(text)}`)
      .join(", and ");
  }
  if (kind === "prompt_tokens") {
    return members(value)
      .map(
        ([side, tokens]) =>
          `the prompt has ${side === "above" ? "more" : "fewer"} than ${String(tokens)} tokens`,
      )
      .join(", and ");
  }
  return `${KINDS[kind] ?? kind} ${list(value).map(String).join(" or ")}`;
}
