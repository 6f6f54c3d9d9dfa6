/** A larger file is kept as gzip alone: it is no part of the first load, and the program stays smaller. */
const LARGEST_TWICE = 1024 * 1024;

/** The endings under which a file of `size` bytes is kept. */
export function encodingsOf(size) {
  return size > LARGEST_TWICE ? [".gz"] : [".br", ".gz"];
}
