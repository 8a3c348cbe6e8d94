// Settings of the stand-in: the location of its configuration, the commands `plugins` and `config` that change it, and
// the plugins in it. Like OpenClaw, it rewrites its configuration in its own format and keeps backups.

import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";

const home = process.env.OPENCLAW_HOME || process.env.HOME || os.homedir();
const file = process.env.OPENCLAW_CONFIG_PATH || path.join(process.env.OPENCLAW_STATE_DIR || path.join(home, ".openclaw"), "openclaw.json");
// Next to the configuration file, unless OPENCLAW_STATE_DIR names another folder.
const extensions = path.join(process.env.OPENCLAW_STATE_DIR || path.dirname(file), "extensions");
const old = process.env.STANDIN_VERSION === "2026.6.1";

const read = () => JSON.parse(fs.readFileSync(file, "utf8"));
const BACKUPS = ["", ".bak", ".bak.1", ".bak.2", ".bak.3", ".bak.4"];

function write(settings) {
  const text = `${JSON.stringify({ ...settings, meta: { lastTouchedVersion: "stand-in" } }, null, 2)}\n`;
  const { size } = fs.statSync(file);
  if (old && size >= 512 && text.length < size / 2) fail(`Config write rejected: ${file} (size-drop:${size}->${text.length})`);
  for (let age = BACKUPS.length - 1; age > 0; age -= 1) {
    const newer = `${file}${BACKUPS[age - 1]}`;
    if (fs.existsSync(newer)) fs.copyFileSync(newer, `${file}${BACKUPS[age]}`);
  }
  fs.writeFileSync(file, text);
}

function applyPatch(settings, patch) {
  const table = { ...settings };
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete table[key];
    else table[key] = typeof value === "object" && !Array.isArray(value) ? applyPatch(table[key], value) : value;
  }
  return table;
}

function copy(source) {
  const { id } = JSON.parse(fs.readFileSync(path.join(source, "openclaw.plugin.json"), "utf8"));
  // OpenClaw keeps the replaced version until the new one is installed; the folder for it remains.
  if (fs.existsSync(path.join(extensions, id))) fs.mkdirSync(path.join(extensions, ".openclaw-install-backups"), { recursive: true });
  fs.cpSync(source, path.join(extensions, id), { recursive: true });
  return id;
}

function install(source) {
  const id = copy(source);
  const settings = read();
  const { allow, enabled } = settings.plugins ?? {};
  if (enabled === false) return write(settings);
  const allowed = allow?.length > 0 ? { allow: [...new Set([...allow, id])] } : {};
  write(applyPatch(settings, { plugins: { ...allowed, entries: { [id]: { enabled: true } } } }));
}

function uninstall(id) {
  if (!fs.existsSync(path.join(extensions, id))) fail(`Plugin not found: ${id}`);
  fs.rmSync(path.join(extensions, id), { recursive: true });
  const { plugins, ...rest } = read();
  const allowed = plugins.allow ? { allow: plugins.allow.filter((name) => name !== id) } : {};
  write({ ...rest, plugins: { ...plugins, ...allowed, entries: { ...plugins.entries, [id]: { enabled: false } } } });
}

function fail(reason) {
  if (fs.existsSync(lifecycle) && fs.readFileSync(lifecycle, "utf8") === String(process.pid)) fs.rmSync(lifecycle);
  process.stderr.write(`${reason}\n`);
  process.exit(1);
}

// Like OpenClaw, only one process at a time changes settings or starts; another one ends with an error.
const lifecycle = path.join(process.env.OPENCLAW_STATE_DIR || path.dirname(file), "state-lifecycle");

function holdLifecycle(action) {
  fs.writeFileSync(lifecycle, String(process.pid), { flag: "wx" });
  try {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, Number(process.env.STANDIN_SLOW ?? 0));
    return action();
  } finally {
    fs.rmSync(lifecycle, { force: true });
  }
}

/** End the process if another one changes the settings. */
export function checkLifecycle() {
  if (fs.existsSync(lifecycle)) fail("another OpenClaw process owns state-lifecycle");
}

/** Run a settings command; returns whether it was one. `STANDIN_REFUSES` names one that fails. */
export function runSettingsCommand(words) {
  const what = words.slice(0, 2).join(" ");
  if (!["plugins install", "plugins uninstall", "config patch"].includes(what)) return false;
  const names = words.slice(2).filter((word) => !word.startsWith("-"));
  const unknown = old && words.includes("--accept-capabilities");
  if (unknown) fail('OpenClaw does not recognize option "--accept-capabilities".');
  if (what === process.env.STANDIN_REFUSES && old && what === "plugins install") copy(names[0]);
  if (what === process.env.STANDIN_REFUSES) fail("\u001b[31mthe configuration is immutable\u001b[0m");
  checkLifecycle();
  holdLifecycle(() => {
    if (what === "plugins install") install(names[0]);
    else if (what === "plugins uninstall") uninstall(names[0]);
    else write(applyPatch(read(), JSON.parse(fs.readFileSync(0, "utf8"))));
  });
  return true;
}

/** Return the plugins in the current configuration, each with its settings. */
export async function plugins() {
  const { enabled, load, entries = {}, allow } = read().plugins ?? {};
  const installed = fs.existsSync(extensions) && enabled !== false ? fs.readdirSync(extensions) : []; // a hidden folder has no entry
  const active = installed.filter((id) => entries[id]?.enabled && (!allow?.length || allow.includes(id)));
  const folders = [...(load?.paths ?? []), ...active.map((id) => path.join(extensions, id))];
  const configOf = (folder) => entries[JSON.parse(fs.readFileSync(path.join(folder, "openclaw.plugin.json"), "utf8")).id]?.config;
  return Promise.all(
    folders.map(async (folder) => ({ plugin: await import(pathToFileURL(path.join(folder, "index.js"))), config: configOf(folder) })),
  );
}
