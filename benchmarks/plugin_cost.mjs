// What the recorder costs an agent per event, against the least that could keep an event at all: one JSON.stringify and
// one writeSync to an append descriptor. Both are measured in the same run, interleaved, in batches; figures are medians.
//
//   node benchmarks/plugin_cost.mjs [--json]
//
// Prints the ratio at the start of a run and after 20,000 events, and their ratio to each other.

import fs from "node:fs";
import os from "node:os";
import path from "node:path";

const BATCH = 200;
const folder = fs.mkdtempSync(path.join(os.tmpdir(), "critiqor-bench-"));
process.env.CRITIQOR_RUN_ID = "run_001";
process.env.CRITIQOR_RUNS_DIR = folder;
const { default: plugin } = await import("../critiqor/clawhub/critiqor-openclaw/index.js");

const handlers = new Map();
plugin.register({ registrationMode: "full", on: (name, handler) => handlers.set(name, handler), runtime: { version: "bench" } });

const output = "PASS tests/unit/orders.test.js (12 assertions), total 41.20 EUR after the discount was applied\n".repeat(7);
let made = 0;
// A tool result as OpenClaw delivers it: about 1.2 KB once written.
function event() {
  made += 1;
  const toolCallId = `call_${made}`;
  const call = { toolName: "exec", params: { command: "npm test -- --run orders" }, runId: "4fa9998d-17e9-4eae", toolCallId };
  const details = { status: "completed", exitCode: 0, durationMs: 381, cwd: "/home/ada/project" };
  return { ...call, result: { content: [{ type: "text", text: output }], details }, durationMs: 507 };
}

const context = { sessionKey: "agent:main:main", agentId: "main" };
const floorDescriptor = fs.openSync(path.join(folder, "floor.jsonl"), "a");
const before = handlers.get("before_tool_call");
const after = handlers.get("after_tool_call");

// The floor keeps the very record that the recorder writes, so that both put the same bytes on the disk.
function record({ toolCallId, result, durationMs }) {
  const envelope = { event_id: "evt_0mhz3q9ab_7f3k12ab_00042", event_type: "tool_result", raw_event_type: "tool_result" };
  const place = { timestamp: "2026-01-01T00:00:00.000Z", source_layer: "tool_hooks", session_key: "agent:main:main" };
  const call = { agent_run_id: "4fa9998d-17e9-4eae", tool_name: "exec", tool_call_id: toolCallId };
  const end = { status: "ok", error: null, duration_ms: durationMs };
  return { ...envelope, ...place, ...call, ...end, payload: { result, source: "after_tool_call", exit_code: 0 } };
}

function floorBatch(events) {
  const records = events.map(record);
  const began = process.hrtime.bigint();
  for (const item of records) fs.writeSync(floorDescriptor, `${JSON.stringify(item)}\n`);
  return Number(process.hrtime.bigint() - began) / events.length;
}

function pluginBatch(events) {
  for (const { result, durationMs, ...call } of events) before(call, context); // the pair's small half, not measured
  const began = process.hrtime.bigint();
  for (const item of events) after(item, context);
  return Number(process.hrtime.bigint() - began) / events.length;
}

const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];
const batches = [];
const measure = async (count) => {
  for (let done = 0; done < count; done += BATCH) {
    const events = Array.from({ length: BATCH }, event);
    const plugged = pluginBatch(events);
    const floor = floorBatch(events);
    batches.push({ floor, plugged });
    await new Promise((resolve) => setImmediate(resolve)); // timers of the recorder run, as they do in an agent
  }
};

await measure(2000); // warm-up: the compiler has seen both paths
batches.length = 0;
await measure(1000);
const early = batches.splice(0);
await measure(19_000);
const late = batches.slice(-5 * 4);

const ratio = (rows) => median(rows.map((row) => row.plugged / row.floor));
const all = [...early, ...batches];
const journal = fs.readFileSync(path.join(folder, "run_001", "journal.jsonl"), "utf8");
const results = journal.split("\n").filter((line) => line.includes('"event_type":"tool_result"'));
const report = {
  events: made,
  bytes_per_event: Buffer.byteLength(results.at(-1)),
  recorded: results.length,
  floor_us: median(all.map((row) => row.floor)) / 1000,
  plugin_us: median(all.map((row) => row.plugged)) / 1000,
  ratio_to_floor: ratio(all),
  growth_20000_over_1000: ratio(late) / ratio(early),
};
fs.rmSync(folder, { recursive: true, force: true });
process.removeAllListeners("exit");
if (process.argv.includes("--json")) console.log(JSON.stringify(report));
else {
  console.log(`one event, ${report.bytes_per_event} bytes: floor ${report.floor_us.toFixed(1)} µs, recorder ${report.plugin_us.toFixed(1)} µs`);
  console.log(`recorder ÷ floor: ${report.ratio_to_floor.toFixed(2)} (at most 2.5)`);
  console.log(`cost at 20,000 events ÷ cost at 1,000: ${report.growth_20000_over_1000.toFixed(2)} (at most 1.2)`);
}
