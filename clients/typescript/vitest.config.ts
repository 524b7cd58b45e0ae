import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

const src = (name: string): string => fileURLToPath(new URL(`src/${name}.ts`, import.meta.url));

// The tests run against a server that runs: see README.md.
export default defineConfig({
  resolve: { alias: [{ find: /^norn-queue$/, replacement: src("index") }, { find: /^norn-queue\/http$/, replacement: src("http") }] },
  test: { testTimeout: 120_000, hookTimeout: 60_000, include: ["test/*.test.ts"], maxConcurrency: 8, pool: "forks" },
});
