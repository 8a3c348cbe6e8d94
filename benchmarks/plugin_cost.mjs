// What the recorder costs an agent, against the least that could keep an event at all: one JSON.stringify and one
// writeSync to an append descriptor, of the very records that the recorder writes. Always interleaved with it.
//
//   node benchmarks/plugin_cost.mjs [--json]        PYTHON names the interpreter that has critiqor; default: python
//
// handlers  how long OpenClaw waits for the handler of a tool result, in batches, flat out; medians. session.json is
//           rewritten by timers between the batches and is no part of this.
// monitored the same for a run of 100,000 events that is monitored: each record is also reported to a real witness, which
//           is another process, and all reports must arrive.
// runs      CPU time of the whole process for a run of 1,000 and for one of 20,000 tool calls (a call and a result each) at
//           a steady pace, from the first until session.json has followed to the last: handlers, timers, every rewriting.
//           Rewriting takes a share of the time and not of the events: at a slower pace, an event has more of it to bear.

import { spawn } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import readline from "node:readline";
import { setImmediate as immediately, setTimeout as sleep } from "node:timers/promises";

const BATCH = 40; // short, so that other programs interrupt few of them
const SHORT = 1000;
const LONG = 20_000;
const MONITORED = 100_000;
const PACE = 2000; // tool calls a second
const PACED_BATCH = 100;
const ROUNDS = 3;
const SHORT_RUNS_A_ROUND = 4;

const WITNESS = `
import sys
from critiqor.recording.witness import Witness
witness = Witness(lambda pid: True)
print(witness.address, flush=True)
sys.stdin.read()
witness.close()
[recorder] = witness.statement().recorders
print(recorder.produced, recorder.irregular)
`;

const folder = fs.mkdtempSync(path.join(os.tmpdir(), "critiqor-bench-"));
process.env.CRITIQOR_RUNS_DIR = folder;
const { default: plugin } = await import("../critiqor/clawhub/critiqor-openclaw/index.js");
process.setMaxListeners(0); // every run has its own exit listener

const context = { sessionKey: "agent:main:main", agentId: "main" };
const output = "PASS tests/unit/orders.test.js (12 assertions), total 41.20 EUR after the discount was applied\n".repeat(7);
let made = 0;

// A tool result as OpenClaw delivers it: about 1.2 KB once written.
function event() {
  made += 1;
  const toolCallId = `call_${made}`;
  const params = { command: "npm test -- --run orders" };
  const call = { toolName: "exec", params, runId: "4fa9998d-17e9-4eae", toolCallId };
  const details = { status: "completed", exitCode: 0, durationMs: 381, cwd: "/home/ada/project" };
  return { ...call, result: { content: [{ type: "text", text: output }], details }, durationMs: 507 };
}

const callOf = ({ result, durationMs, ...call }) => call;
const eventsOf = (count) => Array.from({ length: count }, event);

// The records that the recorder writes of a tool call, so that both put the same bytes on the disk.

function envelope(eventType, { toolCallId }, durationMs, payload) {
  const kind = { event_id: "evt_0mhz3q9ab_7f3k12ab_00042", event_type: eventType, raw_event_type: eventType };
  const place = { timestamp: "2026-01-01T00:00:00.000Z", source_layer: "tool_hooks", session_key: "agent:main:main" };
  const call = { agent_run_id: "4fa9998d-17e9-4eae", tool_name: "exec", tool_call_id: toolCallId };
  return { ...kind, ...place, ...call, status: "ok", error: null, duration_ms: durationMs, payload };
}

function callRecord(item) {
  return envelope("tool_call", item, null, { arguments: item.params, source: "before_tool_call" });
}

function resultRecord(item) {
  return envelope("tool_result", item, item.durationMs, { result: item.result, source: "after_tool_call", exit_code: 0 });
}

/** A run of its own, with the handlers that OpenClaw would call. */
function newRun(runId) {
  process.env.CRITIQOR_RUN_ID = runId;
  const handlers = new Map();
  const on = (name, handler) => handlers.set(name, handler);
  plugin.register({ registrationMode: "full", on, runtime: { version: "bench" } });
  const file = (name) => path.join(folder, runId, name);
  const { snapshot, journal } = globalThis[Symbol.for("critiqor.recorder")];
  return { before: handlers.get("before_tool_call"), after: handlers.get("after_tool_call"), snapshot, journal, file };
}

const floorDescriptor = fs.openSync(path.join(folder, "floor.jsonl"), "a");

function keep(records) {
  for (const item of records) fs.writeSync(floorDescriptor, `${JSON.stringify(item)}\n`);
}

const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];

function nanosecondsOf(action) {
  const began = process.hrtime.bigint();
  action();
  return Number(process.hrtime.bigint() - began);
}

async function measureBatches(run, count) {
  const batches = [];
  for (let done = 0; done < count; done += BATCH) {
    const events = eventsOf(BATCH);
    for (const item of events) run.before(callOf(item), context); // the pair's small half, not measured
    const plugged = nanosecondsOf(() => events.forEach((item) => run.after(item, context))) / BATCH;
    const records = events.map(resultRecord);
    const floor = nanosecondsOf(() => keep(records)) / BATCH;
    batches.push({ floor, plugged });
    await immediately(); // timers of the recorder run, as they do in an agent
  }
  return batches;
}

async function measureMonitored() {
  const witness = spawn(process.env.PYTHON ?? "python", ["-c", WITNESS], { stdio: ["pipe", "pipe", "inherit"] });
  const lines = readline.createInterface(witness.stdout)[Symbol.asyncIterator]();
  process.env.CRITIQOR_WITNESS = (await lines.next()).value;
  const { journal } = newRun("monitored");
  const measured = await measureHandlers("monitored", MONITORED);
  delete process.env.CRITIQOR_WITNESS;
  journal.finish();
  await immediately();
  witness.stdin.end();
  const [produced, irregular] = (await lines.next()).value.split(" ").map(Number);
  return { ...measured, reports_missing: journal.written - produced, irregular };
}

async function measureHandlers(runId, count) {
  const run = newRun(runId);
  await measureBatches(run, 2000); // warm-up: the compiler has seen both paths
  const early = await measureBatches(run, SHORT);
  const rest = await measureBatches(run, count - SHORT);
  const all = [...early, ...rest];
  const ratio = (rows) => median(rows.map((row) => row.plugged / row.floor));
  const lines = fs.readFileSync(run.file("journal.jsonl"), "utf8").split("\n");
  const results = lines.filter((line) => line.includes('"event_type":"tool_result"'));
  return {
    recorded: results.length,
    bytes_per_event: Buffer.byteLength(results.at(-1)),
    floor_us: median(all.map((row) => row.floor)) / 1000,
    plugin_us: median(all.map((row) => row.plugged)) / 1000,
    ratio_to_floor: ratio(all),
    growth: ratio(rest.slice(-100)) / ratio(early),
  };
}

function microsecondsOfCpu(action) {
  const began = process.cpuUsage();
  action();
  const { user, system } = process.cpuUsage(began);
  return user + system;
}

async function isFollowed({ snapshot }) {
  while (snapshot.timer !== null || snapshot.rewriting !== null) await sleep(200);
}

// Everything that the process does counts as the recorder's, but for making the events and for the floor: also waking up
// and collecting the garbage of all of them.
async function measureRun(runId, count) {
  const run = newRun(runId);
  const began = process.cpuUsage();
  const started = performance.now();
  let [floor, handlers, making] = [0, 0, 0];
  for (let done = 0; done < count; done += PACED_BATCH) {
    let events, records;
    making += microsecondsOfCpu(() => {
      events = eventsOf(PACED_BATCH).map((item) => ({ item, call: callOf(item) }));
      records = events.flatMap(({ item }) => [callRecord(item), resultRecord(item)]);
    });
    handlers += microsecondsOfCpu(() => {
      for (const { item, call } of events) {
        run.before(call, context);
        run.after(item, context);
      }
    });
    floor += microsecondsOfCpu(() => keep(records));
    await sleep(Math.max(1, started + ((done + PACED_BATCH) * 1000) / PACE - performance.now()));
  }
  const seconds = (performance.now() - started) / 1000;
  await isFollowed(run);
  const { user, system } = process.cpuUsage(began);
  const plugged = user + system - floor - making;
  fs.rmSync(run.file("."), { recursive: true });
  return { floor: floor / count, plugged: plugged / count, rest: (plugged - handlers) / count, pace: count / seconds };
}

async function measureRuns() {
  const [short, long] = [[], []];
  for (let round = 0; round < ROUNDS; round += 1) {
    for (let index = 0; index < SHORT_RUNS_A_ROUND; index += 1) {
      short.push(await measureRun(`short_${round}_${index}`, SHORT));
    }
    long.push(await measureRun(`long_${round}`, LONG));
  }
  const summaryOf = (rows) => ({
    pace: median(rows.map((row) => row.pace)),
    floor_us: median(rows.map((row) => row.floor)),
    recorder_us: median(rows.map((row) => row.plugged)),
    outside_handlers_us: median(rows.map((row) => row.rest)),
    ratio_to_floor: median(rows.map((row) => row.plugged / row.floor)),
  });
  return { at_1000: summaryOf(short), at_20000: summaryOf(long) };
}

const handlers = await measureHandlers("handlers", LONG);
const monitored = await measureMonitored();
const { at_1000, at_20000 } = await measureRuns();
const growth = at_20000.ratio_to_floor / at_1000.ratio_to_floor;
const report = { events: made, ...handlers, monitored, cpu_with_rewriting: { at_1000, at_20000, growth_20000_over_1000: growth } };
fs.rmSync(folder, { recursive: true, force: true });
process.removeAllListeners("exit");

function against(figure, limit) {
  return `${figure.toFixed(2)} (at most ${limit}${figure > limit ? ": EXCEEDED" : ""})`;
}

function describeHandlers(count, { bytes_per_event, floor_us, plugin_us, ratio_to_floor, growth: grown }) {
  console.log(`  one event, ${bytes_per_event} bytes: floor ${floor_us.toFixed(1)} µs, recorder ${plugin_us.toFixed(1)} µs`);
  console.log(`  recorder ÷ floor: ${against(ratio_to_floor, 2.5)}`);
  console.log(`  cost at ${count} events ÷ cost at 1,000: ${against(grown, 1.2)}`);
}

function describe(count, { floor_us, recorder_us, outside_handlers_us, ratio_to_floor, pace }) {
  const recorder = `recorder ${recorder_us.toFixed(1)} µs, ${outside_handlers_us.toFixed(1)} of it outside the handlers`;
  const calls = `${count} calls with their results at ${pace.toFixed(0)}/s`;
  console.log(`  ${calls}, each: floor ${floor_us.toFixed(1)} µs, ${recorder}`);
  // The floor keeps no document: this says what one costs. Its limit is a share of time, which snapshot.js keeps.
  console.log(`  recorder ÷ floor, with rewriting: ${ratio_to_floor.toFixed(2)}`);
}

if (process.argv.includes("--json")) console.log(JSON.stringify(report));
else {
  console.log("handlers alone, flat out (what OpenClaw waits for; rewriting session.json is not in it)");
  describeHandlers("20,000", handlers);
  console.log("the same in a monitored run, with a report of each record to the witness");
  describeHandlers("100,000", monitored);
  console.log(`  reports that did not arrive: ${monitored.reports_missing}, irregular ones: ${monitored.irregular} (none)`);
  console.log("whole runs, CPU of the process with timers and every rewriting of session.json");
  describe("1,000", at_1000);
  describe("20,000", at_20000);
  console.log(`  cost at 20,000 events ÷ cost at 1,000, with rewriting: ${against(growth, 1.2)}`);
}
