const WHOLE = new Intl.NumberFormat("en-US");
const ONE_DIGIT = new Intl.NumberFormat("en-US", { maximumFractionDigits: 1 });
const SHORT = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });
const DOLLARS = new Intl.NumberFormat("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 9 });

/** What stands where a figure is unknown. */
export const UNKNOWN = "–";

type Figure = number | null | undefined;

function known(value: Figure): value is number {
  return typeof value === "number" && Number.isFinite(value);
}

/** A whole number with separators: `12,345`. */
export function count(value: Figure): string {
  return known(value) ? WHOLE.format(value) : UNKNOWN;
}

/** A number with one decimal at most. */
export function decimal(value: Figure): string {
  return known(value) ? ONE_DIGIT.format(value) : UNKNOWN;
}

/** A number in few characters, for axes: `1.2M`. */
export function short(value: Figure): string {
  return known(value) ? SHORT.format(value) : UNKNOWN;
}

/** An amount to the nano-dollar, because small costs must not become zero: `$0.000000123`. */
export function usd(value: Figure): string {
  if (!known(value)) return UNKNOWN;
  return `${value < 0 ? "−" : ""}$${DOLLARS.format(Math.abs(value))}`;
}

/** The cost of a request: a missing price is no zero. */
export function cost(value: Figure, unpriced = false): string {
  if (!known(value)) return "unpriced";
  return unpriced ? `${usd(value)} + unpriced` : usd(value);
}

/** The price of a million tokens. */
export function perMillion(value: Figure): string {
  return known(value) ? `${usd(value)} / M tokens` : "unknown price";
}

/** `12,345 tokens` */
export function tokens(value: Figure): string {
  return known(value) ? `${count(value)} ${value === 1 ? "token" : "tokens"}` : UNKNOWN;
}

/** `52.3 tokens/s` */
export function tokensPerSecond(value: Figure): string {
  return known(value) ? `${decimal(value)} tokens/s` : UNKNOWN;
}

/** A part of one as a percentage. */
export function percent(part: Figure): string {
  return known(part) ? `${ONE_DIGIT.format(part * 100)} %` : UNKNOWN;
}

/** `a` as a part of `b`, or nothing when there is no `b`. */
export function ratio(a: Figure, b: Figure): number | null {
  return known(a) && known(b) && b !== 0 ? a / b : null;
}

/** A size in bytes with its unit. */
export function bytes(value: Figure): string {
  if (!known(value)) return UNKNOWN;
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  let size = value;
  let unit = 0;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? count(size) : decimal(size)} ${units[unit]}`;
}

/** The change from one span to the next, with its sign, or nothing when there was nothing before. */
export function change(now: Figure, before: Figure): string | null {
  const part = ratio(known(now) && known(before) ? now - before : null, before);
  if (part === null) return null;
  if (part === 0) return "no change";
  return `${part > 0 ? "+" : "−"}${ONE_DIGIT.format(Math.abs(part) * 100)} %`;
}
