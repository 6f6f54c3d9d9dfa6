// Writes the built console, compressed, into the crate that embeds it. Equal sources give equal bytes.
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { encodingsOf } from "./encodings.mjs";

const built = fileURLToPath(new URL("../dist/", import.meta.url));
const assets = fileURLToPath(new URL("../../crates/gw-console/assets/", import.meta.url));

const brotli = {
  params: {
    [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY,
    [constants.BROTLI_PARAM_LGWIN]: 22,
  },
};

/** The gzip bytes of `content`, with a header that names no operating system. */
function gzip(content) {
  const bytes = gzipSync(content, { level: 9, memLevel: 9 });
  bytes[9] = 0xff;
  return bytes;
}

await rm(assets, { recursive: true, force: true });
const entries = await readdir(built, { recursive: true, withFileTypes: true });
const names = entries
  .filter((entry) => entry.isFile())
  .map((entry) => relative(built, join(entry.parentPath, entry.name)))
  .sort();
const total = { plain: 0, br: 0, gz: 0 };
for (const name of names) {
  const content = await readFile(join(built, name));
  const gz = gzip(content);
  const br = encodingsOf(content.length).includes(".br") ? brotliCompressSync(content, brotli) : undefined;
  const target = join(assets, name);
  await mkdir(dirname(target), { recursive: true });
  if (br) await writeFile(`${target}.br`, br);
  await writeFile(`${target}.gz`, gz);
  total.plain += content.length;
  total.br += br?.length ?? 0;
  total.gz += gz.length;
}
console.log(`${names.length} files: ${total.plain} bytes, ${total.br} as .br, ${total.gz} as .gz`);
