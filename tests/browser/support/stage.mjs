// One Chromium, one dashboard and one runs folder for all tests.
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { after } from "node:test";
import { fileURLToPath } from "node:url";

const HERE = dirname(dirname(fileURLToPath(import.meta.url)));
/** Timeout of a wait; no test measures time. */
export const PATIENCE_MS = 30_000;

const found = JSON.parse(execFileSync("python", [join(HERE, "chromium.py")], { encoding: "utf8" }).trim().split("\n").at(-1));
const require = createRequire(join(found.packages, "package.json"));
const puppeteer = require("puppeteer-core").default;
export const AXE = require("axe-core").source;

const folder = mkdtempSync(join(tmpdir(), "critiqor-browser-"));
const started = [];

/** Start a process; returns it and a function that reads its next line. */
function start(command, ...words) {
  const child = spawn(command, words, { stdio: ["pipe", "pipe", "inherit"], env: { ...process.env, HOME: folder } });
  started.push(child);
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const answer = async () => {
    const { value, done } = await lines.next();
    if (done) throw new Error(`${command} ${words.join(" ")} ended without an answer`);
    return value;
  };
  return { child, answer };
}

/** End everything that was started, also after a failed start, or the test run would never end. */
async function end() {
  await browser?.close();
  runsMaker.child.stdin.end();
  dashboard?.child.kill("SIGINT");
  await Promise.all(started.map((child) => child.exitCode ?? child.signalCode ?? once(child, "exit")));
  rmSync(folder, { recursive: true, force: true });
}

const runsMaker = start("python", join(HERE, "stage.py"), folder);
let dashboard;
/** Run ids by purpose, and the texts of the hostile run. */
export let fixtures;
/** Address of the dashboard, and the link that opens it. */
export let address, link;
export let browser;

try {
  fixtures = JSON.parse(await runsMaker.answer());
  const { store, index, structure_tenant: tenant } = fixtures.fleet;
  const fleet = ["--fleet", "--store", store, "--index", index, "--tenant", "default", "--tenant", tenant];
  dashboard = start("critiqor", "dashboard", "--no-browser", "--json", "--runs-dir", join(folder, "runs"), ...fleet);
  let opening = "";
  while (!opening.endsWith("\n}\n")) opening += `${await dashboard.answer()}\n`;
  ({ address, link } = JSON.parse(opening).data);
  browser = await puppeteer.launch({
    executablePath: found.program,
    env: { ...process.env, ...found.environment, HOME: folder },
    headless: "shell",
    args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--lang=en-US"],
    protocolTimeout: PATIENCE_MS,
  });
} catch (error) {
  await end();
  throw error;
}
after(end);

export const { runs } = fixtures;

/** Record another agent; it waits until the file `gate` exists. */
export async function recordAnother() {
  runsMaker.child.stdin.write("\n");
  return JSON.parse(await runsMaker.answer());
}

/** The diagnosis of a run. */
export function diagnosisOf(run) {
  const words = ["show", run, "--json", "--runs-dir", join(folder, "runs")];
  return JSON.parse(execFileSync("critiqor", words, { encoding: "utf8", maxBuffer: 2 ** 28 })).data.diagnosis;
}

/** Write the report of a run; returns the file. */
export function reportOf(run, format) {
  const file = join(folder, `${run}.${format}`);
  const words = ["report", run, "--format", format, "--output", file, "--runs-dir", join(folder, "runs")];
  execFileSync("critiqor", words, { env: { ...process.env, ...found.environment, HOME: folder, CRITIQOR_CHROMIUM: found.program } });
  return file;
}
