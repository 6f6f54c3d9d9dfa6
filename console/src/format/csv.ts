export type Cell = string | number | boolean | null | undefined;

/** Text that a spreadsheet would compute begins with an apostrophe, as in the API's CSV. */
function harmless(cell: Cell): string {
  if (cell === null || cell === undefined) return "";
  if (typeof cell !== "string") return String(cell);
  return /^[=+\-@\t\r]/.test(cell) ? `'${cell}` : cell;
}

function quoted(text: string): string {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Rows as CSV (RFC 4180). */
export function csv(header: string[], rows: Cell[][]): string {
  return [header, ...rows]
    .map((row) => `${row.map((cell) => quoted(harmless(cell))).join(",")}\r\n`)
    .join("");
}

/** Offers a text as a file to the reader. */
export function download(name: string, text: string, type = "text/csv"): void {
  const address = URL.createObjectURL(new Blob([text], { type: `${type};charset=utf-8` }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  URL.revokeObjectURL(address);
}
