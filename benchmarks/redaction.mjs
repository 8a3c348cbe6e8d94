// The part of redaction.py that runs in JavaScript, with the modules of the recorder plugin.
//
//   node benchmarks/redaction.mjs texts  reads one JSON text per line, and prints each as it would be recorded
//   node benchmarks/redaction.mjs cost   prints CPU time of recording with redaction ÷ without, in batches that alternate

import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import readline from "node:readline";

import { serializeRecord } from "../critiqor/clawhub/critiqor-openclaw/payload.js";
import { Redactor } from "../critiqor/clawhub/critiqor-openclaw/redact.js";

const BATCH = 500;
const ROUNDS = 60;
const WARM_UP = 20;

async function redactTexts() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const record = { session_key: "s", tool_name: null, tool_call_id: null, error: null, payload: { text: JSON.parse(line) } };
    const { text } = JSON.parse(serializeRecord(record, new Redactor("key"))).payload;
    process.stdout.write(`${JSON.stringify(text.cut ? text.excerpt : text)}\n`);
  }
}

const median = (values) => values.toSorted((one, other) => one - other)[values.length >> 1];

// A tool result as OpenClaw delivers it: about 1.2 KB once written.
const output = "PASS tests/unit/orders.test.js (12 assertions), total 41.20 EUR after the discount was applied\n".repeat(7);

function eventsOf(count, round) {
  return Array.from({ length: count }, (_, index) => {
    const params = { command: "npm test -- --run orders" };
    const call = { toolName: "exec", params, runId: "4fa9998d-17e9-4eae", toolCallId: `call_${round}_${index}` };
    const details = { status: "completed", exitCode: 0, durationMs: 381, cwd: "/home/ada/project" };
    return { call, result: { ...call, result: { content: [{ type: "text", text: output }], details }, durationMs: 507 } };
  });
}

async function measureCost() {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "critiqor-bench-"));
  Object.assign(process.env, { CRITIQOR_RUNS_DIR: folder, CRITIQOR_RUN_ID: "cost" });
  const { default: plugin } = await import("../critiqor/clawhub/critiqor-openclaw/index.js");
  const handlers = new Map();
  plugin.register({ registrationMode: "full", on: (name, handler) => handlers.set(name, handler), runtime: { version: "bench" } });
  const context = { sessionKey: "agent:main:main", agentId: "main" };
  const { mayHoldSecret } = Redactor.prototype;
  const never = () => false;
  const times = new Map([[mayHoldSecret, []], [never, []]]);
  for (let round = 0; round < ROUNDS; round += 1) {
    const halves = [...times];
    if (round % 2 === 1) halves.reverse(); // what follows a pause costs more
    for (const [gate, measured] of halves) {
      Redactor.prototype.mayHoldSecret = gate;
      const events = eventsOf(BATCH, round);
      const began = process.cpuUsage();
      for (const { call, result } of events) {
        handlers.get("before_tool_call")(call, context);
        handlers.get("after_tool_call")(result, context);
      }
      const { user, system } = process.cpuUsage(began);
      if (round >= WARM_UP) measured.push(user + system);
    }
    await new Promise(setImmediate); // timers of the recorder run, as they do in an agent
  }
  process.removeAllListeners("exit");
  fs.rmSync(folder, { recursive: true, force: true });
  console.log(median(times.get(mayHoldSecret)) / median(times.get(never)));
  process.exit(0);
}

await (process.argv[2] === "cost" ? measureCost() : redactTexts());
