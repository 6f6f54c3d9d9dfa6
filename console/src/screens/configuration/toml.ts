import type { ListSection } from "./changes";
import type { Value } from "./value";

const NAMES = { aliases: "name", providers: "name", models: "id", budgets: "name", alerts: "name" } as const;

/** A value as TOML writes it in one line. */
function inline(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(inline).join(", ")}]`;
  if (typeof value === "object" && value !== null) {
    return `{ ${Object.entries(value)
      .map(([name, item]) => `${key(name)} = ${inline(item)}`)
      .join(", ")} }`;
  }
  return String(value);
}

function key(name: string): string {
  return /^[A-Za-z0-9_-]+$/.test(name) ? name : JSON.stringify(name);
}

/** An entry as it stands in gateway.toml. */
export function tomlOf(section: ListSection, name: string, value: Value): string {
  const members = Object.entries({ [NAMES[section]]: name, ...value });
  return `[[${section}]]\n${members.map(([member, item]) => `${key(member)} = ${inline(item)}\n`).join("")}`;
}
