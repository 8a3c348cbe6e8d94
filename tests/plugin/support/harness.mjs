// A stand-in for OpenClaw: it registers the plugin as OpenClaw does, and hands it events.

import { spawn } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { mock } from "node:test";
import { fileURLToPath } from "node:url";

export const PLUGIN = new URL("../../../critiqor/clawhub/critiqor-openclaw/", import.meta.url);
export const plugin = await import(new URL("index.js", PLUGIN));
process.setMaxListeners(0); // every run of a test has its own exit listener

let runs = 0;

/** A folder for runs of its own, with a run that the plugin will write to. */
export function newRun(t, { runsDir = temporaryFolder(t), runId = `run_${(runs += 1)}` } = {}) {
  process.env.CRITIQOR_RUN_ID = runId;
  process.env.CRITIQOR_RUNS_DIR = runsDir;
  const folder = path.join(runsDir, runId);
  const file = (name) => path.join(folder, name);
  return {
    runsDir,
    runId,
    folder,
    journal: file("journal.jsonl"),
    sessionFile: file("session.json"),
    lock: file("session.json.lock"),
    text: () => fs.readFileSync(file("journal.jsonl"), "utf8"),
    lines: () => fs.readFileSync(file("journal.jsonl"), "utf8").split("\n").slice(0, -1).map((line) => JSON.parse(line)),
    session: () => JSON.parse(fs.readFileSync(file("session.json"), "utf8")),
    /** The names of its files, without those of closing records. */
    files: () => fs.readdirSync(folder).filter((name) => !name.startsWith("recorder-")).sort(),
    /** The closing records of all recorders, in no particular order. */
    closings: () => fs.readdirSync(folder).filter((name) => name.startsWith("recorder-")).map((name) => JSON.parse(fs.readFileSync(file(name), "utf8"))),
    /** Every record so far, in the order of event ids, without the one that says that a recorder is there. */
    events() {
      state().records.flush();
      const events = this.lines().sort((a, b) => (a.event_id < b.event_id ? -1 : 1));
      return events.filter((event) => event.event_type !== "recorder_attached");
    },
    of(eventType) {
      return this.events().filter((event) => event.event_type === eventType);
    },
  };
}

export function temporaryFolder(t) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "critiqor-plugin-"));
  t.after(() => fs.rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** What the plugin keeps for the current run. */
export const state = () => globalThis[Symbol.for("critiqor.recorder")];

/**
 * An OpenClaw with one registration of the plugin; `knows` limits the hook names that it accepts, `config` is the plugin's.
 * Without a `version` it is one that has the documented names.
 */
export function attach({ mode = "full", knows = () => true, version = "documented", config } = {}) {
  const handlers = new Map();
  const agentListeners = new Set();
  const transcriptListeners = new Set();
  const api = {
    registrationMode: mode,
    pluginConfig: config,
    on(name, handler) {
      if (!knows(name)) throw new Error(`unknown hook ${name}`);
      handlers.set(name, [...(handlers.get(name) ?? []), handler]);
    },
    runtime: {
      version,
      events: {
        onAgentEvent: (listener) => agentListeners.add(listener),
        onSessionTranscriptUpdate: (listener) => transcriptListeners.add(listener),
      },
    },
  };
  plugin.default.register(api);
  let seq = 0;
  return {
    api,
    handlers,
    hook: (name, event, context) => (handlers.get(name) ?? []).map((handler) => handler(event, context)),
    agent: (event) => [...agentListeners].map((listener) => listener(event)),
    stream: (stream, data, event = {}) => {
      seq += 1;
      for (const listener of agentListeners) listener({ runId: "r1", sessionKey: "s1", stream, data, seq, ts: Date.now(), ...event });
    },
    transcript: (update) => [...transcriptListeners].map((listener) => listener(update)),
  };
}

/** The clock stands still unless `tick` moves it; timers follow it. */
export function stopClock(t) {
  mock.timers.reset();
  mock.timers.enable({ apis: ["Date", "setTimeout"], now: 1_800_000_000_000 });
  t.after(() => mock.timers.reset());
  return (milliseconds) => mock.timers.tick(milliseconds);
}

/** Everything an OpenClaw emitted, row by row. */
export function fixture(name) {
  const file = new URL(`../fixtures/${name}.jsonl`, import.meta.url);
  return fs.readFileSync(file, "utf8").trim().split("\n").map((line) => JSON.parse(line));
}

/**
 * Replays a fixture in its own time, or that of a machine which is `slowness` times as slow; it costs none. All registrations
 * of the recorded process take part.
 */
export function replay(t, name, { slowness = 1 } = {}) {
  const tick = stopClock(t);
  const run = newRun(t);
  const rows = fixture(name);
  const registrations = [];
  let now = 0;
  for (const row of rows) {
    if (row.t > now) tick((row.t - now) * slowness);
    now = Math.max(now, row.t ?? 0);
    if (row.kind === "register") registrations.push(attach({ mode: row.name }));
    const [first] = registrations;
    if (row.kind === "hook") registrations.findLast(({ api }) => api.registrationMode === "full").hook(row.name, row.event, row.ctx ?? undefined);
    else if (row.kind === "agent") first.agent(row.event);
    else if (row.kind === "transcript") first.transcript(row.event);
  }
  tick(2000 * slowness);
  return { run, rows, events: run.events() };
}

/** Runs a script in a process of its own, as a part of the given run. */
export function inProcess(run, script, environment = {}) {
  const harness = JSON.stringify(fileURLToPath(import.meta.url));
  const source = `import { attach, plugin, state } from ${harness};\n${script}`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", source], {
    env: { ...process.env, NODE_TEST_CONTEXT: "", CRITIQOR_RUN_ID: run.runId, CRITIQOR_RUNS_DIR: run.runsDir, ...environment },
    stdio: ["pipe", "pipe", "pipe"],
  });
  const output = { stdout: "", stderr: "" };
  child.stdout.on("data", (data) => (output.stdout += data));
  child.stderr.on("data", (data) => (output.stderr += data));
  const ended = new Promise((resolve) => child.on("close", (code, signal) => resolve({ code, signal, ...output })));
  return { child, ended, go: () => child.stdin.end("go") };
}

/** The counts of one writer, from the ids of its events. */
export const sequences = (events) => events.map(({ event_id }) => parseInt(event_id.split("_")[3], 36)).sort((a, b) => a - b);
