// What a screen shows stands in the address. Every value is a plain text there, so that addresses stay readable.

export type Search = Record<string, unknown>;

export function parseSearch(query: string): Record<string, string> {
  return Object.fromEntries(new URLSearchParams(query));
}

export function stringifySearch(search: Search): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(search)) {
    if (value !== undefined && value !== null && value !== "") params.set(name, String(value));
  }
  const query = params.toString();
  return query === "" ? "" : `?${query}`;
}

/** A text of the address, or nothing when it is absent or empty. */
export function text(search: Search, name: string): string | undefined {
  const value = search[name];
  return typeof value === "string" && value !== "" ? value : undefined;
}

/** One of some known texts, or the first one. */
export function oneOf<T extends string>(search: Search, name: string, known: readonly [T, ...T[]]): T {
  const value = search[name];
  return known.find((item) => item === value) ?? known[0];
}

/** Some texts of the address by their names, without the absent ones. */
export function texts<T extends string>(search: Search, names: readonly T[]): { [name in T]?: string } {
  const found: { [name in T]?: string } = {};
  for (const name of names) {
    const value = text(search, name);
    if (value !== undefined) found[name] = value;
  }
  return found;
}
