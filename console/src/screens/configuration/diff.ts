export interface DiffLine {
  kind: "same" | "removed" | "added";
  text: string;
}

/** A value as lines of JSON. No value is no lines. */
export function linesOf(value: unknown): string[] {
  return value === null || value === undefined ? [] : JSON.stringify(value, null, 2).split("\n");
}

/** The lengths of the longest common parts of all ends of two lists. */
function commonLengths(before: readonly string[], after: readonly string[]): number[][] {
  const lengths = Array.from({ length: before.length + 1 }, () =>
    new Array<number>(after.length + 1).fill(0),
  );
  const at = (row: number, column: number) => lengths[row]?.[column] ?? 0;
  for (let i = before.length - 1; i >= 0; i -= 1) {
    for (let j = after.length - 1; j >= 0; j -= 1) {
      const row = lengths[i];
      if (row) row[j] = before[i] === after[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
    }
  }
  return lengths;
}

/** What turns one list of lines into another, the removed lines before the added ones. */
export function diffLines(before: readonly string[], after: readonly string[]): DiffLine[] {
  const lengths = commonLengths(before, after);
  const lines: DiffLine[] = [];
  let i = 0;
  let j = 0;
  while (i < before.length || j < after.length) {
    const [old, fresh] = [before[i], after[j]];
    if (old !== undefined && old === fresh) {
      lines.push({ kind: "same", text: old });
      i += 1;
      j += 1;
    } else if (old !== undefined && (lengths[i + 1]?.[j] ?? 0) >= (lengths[i]?.[j + 1] ?? 0)) {
      lines.push({ kind: "removed", text: old });
      i += 1;
    } else {
      lines.push({ kind: "added", text: fresh ?? "" });
      j += 1;
    }
  }
  return lines;
}

const SECRET = /(^|_)(keys?|secret|token|password|authorization)$/i;

/** A value whose secrets are only named, because a screen has more readers than a store. */
export function withoutSecrets(value: unknown, isSecret = false): unknown {
  if (typeof value === "string") return isSecret && value !== "***" ? "(a new secret)" : value;
  if (Array.isArray(value)) return value.map((item) => withoutSecrets(item, isSecret));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [
      name,
      withoutSecrets(member, isSecret || SECRET.test(name)),
    ]),
  );
}

/** The difference of two values as lines of JSON, without their secrets. */
export function diffValues(before: unknown, after: unknown): DiffLine[] {
  return diffLines(linesOf(withoutSecrets(before)), linesOf(withoutSecrets(after)));
}
