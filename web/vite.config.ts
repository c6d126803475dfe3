import { writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { defineConfig } from "vitest/config";
import type { Plugin } from "vite";
import { sourceHash } from "./source_hash.ts";

const BUNDLE = join(import.meta.dirname, "../src/opscope/report/bundle");

// Recorded beside the bundle, so that a check without node can tell whether it is stale.
function recordSources(): Plugin {
  let folder = BUNDLE;
  return {
    name: "record-sources",
    apply: "build",
    configResolved(config) {
      folder = resolve(config.root, config.build.outDir);
    },
    closeBundle() {
      writeFileSync(join(folder, "sources.sha256"), `${sourceHash(import.meta.dirname)}\n`);
    },
  };
}

export default defineConfig({
  plugins: [recordSources()],
  build: {
    outDir: BUNDLE,
    emptyOutDir: true,
    target: "es2022",
    cssCodeSplit: false,
    rollupOptions: {
      input: join(import.meta.dirname, "src/main.ts"),
      output: {
        format: "iife",
        entryFileNames: "report.js",
        assetFileNames: "report.[ext]",
      },
    },
  },
  test: { environment: "happy-dom", include: ["test/**/*.test.ts"] },
});
