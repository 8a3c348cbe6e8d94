// What is installed with the plugin: OpenClaw copies its folder, or loads it from where it is.

import assert from "node:assert/strict";
import fs from "node:fs";
import { test } from "node:test";

import { PLUGIN } from "./support/harness.mjs";

const MANIFESTS = ["openclaw.plugin.json", "package.json"];

/** The files that are loaded from `name` on, itself included. */
function loadedFrom(name, found = new Set()) {
  if (found.has(name)) return found;
  found.add(name);
  if (!name.endsWith(".js")) return found;
  const code = fs.readFileSync(new URL(name, PLUGIN), "utf8").replace(/\/\*.*?\*\//gs, "");
  for (const [, next] of code.matchAll(/"\.\/([\w.]+\.js(?:on)?)"/g)) loadedFrom(next, found);
  return found;
}

test("the folder holds nothing but what the plugin loads and what describes it", () => {
  const used = new Set([...loadedFrom("index.js"), ...MANIFESTS]);
  assert.deepEqual(fs.readdirSync(PLUGIN).sort(), [...used].sort());
});

test("the plugin needs no other package", () => {
  const manifest = JSON.parse(fs.readFileSync(new URL("package.json", PLUGIN), "utf8"));
  assert.deepEqual(Object.keys(manifest).filter((key) => /dependencies/i.test(key)), []);
});
