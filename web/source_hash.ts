// One number for everything the bundle is made from; check_bundle.py computes the same in Python.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";

const ROOTS = [
  "package.json",
  "package-lock.json",
  "source_hash.ts",
  "tsconfig.json",
  "vite.config.ts",
  "src",
];

export function sourceHash(folder: string): string {
  const hash = createHash("sha256");
  for (const path of ROOTS.flatMap((root) => filesUnder(folder, root)).sort()) {
    const content = readFileSync(join(folder, path));
    hash.update(`${path}\0${content.length}\0`).update(content);
  }
  return hash.digest("hex");
}

function filesUnder(folder: string, path: string): string[] {
  if (!statSync(join(folder, path)).isDirectory()) return [path];
  return readdirSync(join(folder, path)).flatMap((name) => filesUnder(folder, `${path}/${name}`));
}
