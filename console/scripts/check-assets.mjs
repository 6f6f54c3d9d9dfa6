// Compares the embedded files with what the sources build to. The contents count, not the compressed bytes: those differ
// between versions of zlib and brotli. `npm run check-assets` builds first.
import { readdir, readFile } from "node:fs/promises";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliDecompressSync, gunzipSync } from "node:zlib";

const built = fileURLToPath(new URL("../dist/", import.meta.url));
const assets = fileURLToPath(new URL("../../crates/gw-console/assets/", import.meta.url));

async function namesBelow(folder) {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)));
}

const faults = [];
const wanted = new Set(await namesBelow(built));
const seen = new Set();
for (const name of await namesBelow(assets)) {
  const inflate = name.endsWith(".br") ? brotliDecompressSync : name.endsWith(".gz") ? gunzipSync : undefined;
  const plain = inflate ? name.slice(0, -".br".length) : name;
  if (!inflate || !wanted.has(plain)) {
    faults.push(`${name} is not built from the sources`);
    continue;
  }
  if (name.endsWith(".gz")) seen.add(plain);
  const [embedded, source] = [
    inflate(await readFile(join(assets, name))),
    await readFile(join(built, plain)),
  ];
  if (!embedded.equals(source)) faults.push(`${name} differs from what the sources build to`);
}
for (const name of wanted) if (!seen.has(name)) faults.push(`${name} is not embedded`);
if (faults.length > 0) {
  console.error(
    `${faults.join("\n")}\nRun \`npm run build\` in console/ and commit crates/gw-console/assets/.`,
  );
  process.exit(1);
}
console.log(`${wanted.size} embedded files are what the sources build to`);
