// Fails unless the committed assets are what the sources build to. It compares contents, because versions of Node may
// compress differently.
import { readdir, readFile, stat } from "node:fs/promises";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliDecompressSync, gunzipSync } from "node:zlib";
import { encodingsOf } from "./encodings.mjs";

const built = fileURLToPath(new URL("../dist/", import.meta.url));
const assets = fileURLToPath(new URL("../../crates/gw-console/assets/", import.meta.url));
const UNPACK = { ".gz": gunzipSync, ".br": brotliDecompressSync };

async function filesOf(folder) {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  return files.map((entry) => relative(folder, join(entry.parentPath, entry.name))).sort();
}

const names = await filesOf(built);
const sizes = await Promise.all(names.map(async (name) => (await stat(join(built, name))).size));
const expected = names.flatMap((name, at) => encodingsOf(sizes[at]).map((ending) => name + ending)).sort();
const committed = await filesOf(assets);
const problems = [
  ...expected.filter((name) => !committed.includes(name)).map((name) => `${name} is missing`),
  ...committed.filter((name) => !expected.includes(name)).map((name) => `${name} is not built`),
];
for (const name of expected.filter((item) => committed.includes(item))) {
  const content = UNPACK[name.slice(-3)](await readFile(join(assets, name)));
  if (!content.equals(await readFile(join(built, name.slice(0, -3))))) problems.push(`${name} differs`);
}
for (const problem of problems) console.error(`crates/gw-console/assets: ${problem}`);
if (problems.length > 0) {
  console.error("Run `npm run build` in console/ and commit the assets.");
  process.exit(1);
}
console.log(`${expected.length} assets are what the sources build to`);
