import type { Cell } from "@/format/csv";

/** The order of a table as the address has it: `cost.desc`. */
export type Sort = string;

export interface ParsedSort {
  column: string;
  isDescending: boolean;
}

export function parseSort(sort: Sort | undefined): ParsedSort | undefined {
  const match = /^(.+)\.(asc|desc)$/.exec(sort ?? "");
  return match?.[1] ? { column: match[1], isDescending: match[2] === "desc" } : undefined;
}

/** The next order of a column: numbers begin with the largest, texts with the first. The third click ends it. */
export function nextSort(sort: Sort | undefined, column: string, isNumber: boolean): Sort | undefined {
  const now = parseSort(sort);
  const first = isNumber ? "desc" : "asc";
  if (now?.column !== column) return `${column}.${first}`;
  const isFirst = now.isDescending === (first === "desc");
  return isFirst ? `${column}.${first === "desc" ? "asc" : "desc"}` : undefined;
}

const TEXTS = new Intl.Collator("en", { numeric: true, sensitivity: "base" });

/** Orders two cells; empty cells come first, so that they are last when the largest is first. */
export function compareCells(a: Cell, b: Cell): number {
  const isEmptyA = a === null || a === undefined;
  const isEmptyB = b === null || b === undefined;
  if (isEmptyA || isEmptyB) return Number(isEmptyB) - Number(isEmptyA);
  if (typeof a === "number" && typeof b === "number") return a - b;
  return TEXTS.compare(String(a), String(b));
}
