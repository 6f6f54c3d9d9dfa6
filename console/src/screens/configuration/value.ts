export type Value = Record<string, unknown>;

export type Parsed = { value: Value; problem?: undefined } | { problem: string; value?: undefined };

/** An object from the text of a JSON field. */
export function parseMembers(text: string): Parsed {
  try {
    const value: unknown = JSON.parse(text.trim() === "" ? "{}" : text);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return { value: { ...value } };
    return { problem: "This must be a JSON object." };
  } catch (error) {
    return { problem: `This is no JSON: ${error instanceof Error ? error.message : String(error)}` };
  }
}

/** The targets of an alias as the text of a field, one a line. */
export function targetsText(value: Value): string {
  const { targets } = value;
  if (typeof targets === "string") return targets;
  return Array.isArray(targets) ? targets.map(String).join("\n") : "";
}

/** The targets from the text of a field. Commas and blanks separate them, too. */
export function parseTargets(text: string): string[] {
  return text.split(/[\s,]+/).filter((target) => target !== "");
}

/** An alias with other targets; its other members stay. */
export function withTargets(value: Value, text: string): Value {
  return { ...value, targets: parseTargets(text) };
}

/** A value in one line, for tables. */
export function oneLine(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** A member as the text of a field; other values than texts have no field. */
export function memberText(value: Value, name: string): string {
  const member = value[name];
  return typeof member === "string" ? member : "";
}

/** A value with another member. An empty text takes the member away. */
export function withMember(value: Value, name: string, text: string): Value {
  const { [name]: _old, ...rest } = value;
  return text.trim() === "" ? rest : { ...rest, [name]: text.trim() };
}
