// A recording that is cut into segments: the recorder follows the slot to the next run, and an agent run ends where it began.

import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { attach, inProcess, newRun, PLUGIN, state } from "./support/harness.mjs";

const { RunRecorder } = await import(new URL("run_recorder.js", PLUGIN));
const { followSlot } = await import(new URL("slot.js", PLUGIN));

/** A recording with a slot, and its segments. */
function newRecording(t) {
  const first = newRun(t);
  const slot = path.join(first.runsDir, "active_session.json");
  process.env.CRITIQOR_SLOT_FILE = slot;
  const recording = {
    first,
    slot,
    /** Lets the recording go on in a run, as a cut does. */
    pass(runId) {
      const run = runId === first.runId ? first : newRun(t, { runsDir: first.runsDir, runId });
      process.env.CRITIQOR_RUN_ID = first.runId;
      fs.mkdirSync(run.folder, { recursive: true });
      const text = JSON.stringify({ run_id: runId, recording: first.runId, status: "MONITORING" });
      fs.writeFileSync(`${slot}.tmp`, text);
      fs.renameSync(`${slot}.tmp`, slot);
      return run;
    },
  };
  recording.pass(first.runId);
  t.after(() => {
    fs.unwatchFile(slot);
    delete process.env.CRITIQOR_SLOT_FILE;
  });
  return recording;
}

const kinds = (run) => (fs.existsSync(run.journal) ? run.lines().map((event) => `${event.agent_run_id} ${event.event_type}`) : []);
const call = (claw, runId, name) => {
  const context = { runId, sessionKey: "s1" };
  claw.hook("before_tool_call", { toolCallId: `${runId} ${name}`, toolName: "exec", params: {} }, context);
  claw.hook("after_tool_call", { toolCallId: `${runId} ${name}`, toolName: "exec", result: {}, durationMs: 1 }, context);
};
const begin = (claw, runId) => claw.hook("before_agent_run", { prompt: "p" }, { runId, sessionKey: "s1" });
const end = (claw, runId) => {
  claw.hook("agent_end", { success: true, messages: [] }, { runId, sessionKey: "s1" });
  claw.hook("llm_output", { usage: {} }, { runId, sessionKey: "s1" });
};

async function until(condition) {
  const deadline = Date.now() + 20_000;
  while (!condition() && Date.now() < deadline) await sleep(20);
  assert.ok(condition());
}

test("agent runs in progress end in the segment in which they began, and new ones belong to the next", async (t) => {
  const recording = newRecording(t);
  const claw = attach();
  begin(claw, "r1");
  call(claw, "r1", "a");
  const next = recording.pass("run_next");
  await until(() => kinds(next).length > 0);
  begin(claw, "r2");
  call(claw, "r2", "b");
  call(claw, "r1", "c");
  await sleep(800);
  assert.equal(recording.first.closings()[0].produced, undefined); // r1 goes on
  end(claw, "r1");
  await until(() => recording.first.closings()[0].produced > 0);
  const [closing] = recording.first.closings();
  assert.deepEqual([closing.produced, closing.lost], [kinds(recording.first).length, 0]);
  end(claw, "r2");
  state().records.flush();
  assert.ok(kinds(recording.first).every((kind) => !kind.startsWith("r2")));
  assert.deepEqual(kinds(next).filter((kind) => kind.startsWith("r1")), []);
  assert.deepEqual(kinds(next)[0], "null recorder_attached");
  assert.deepEqual(kinds(recording.first).filter((kind) => kind === "r1 agent_end").length, 1);
  assert.deepEqual(kinds(recording.first).filter((kind) => kind === "r1 tool_result").length, 2);
});

test("a process that starts after a cut records into the current segment", async (t) => {
  const recording = newRecording(t);
  const next = recording.pass("run_next");
  const script = `attach().hook("session_start", {}, { sessionKey: "s1" }); process.exit(0);`;
  await inProcess(recording.first, script).ended;
  assert.deepEqual(kinds(recording.first), []);
  assert.deepEqual(kinds(next), ["null recorder_attached", "null session_start"]);
});

test("a cut between reading the slot and opening the journal is noticed before a record is written", (t) => {
  const recording = newRecording(t);
  fs.mkdirSync(recording.first.folder, { recursive: true });
  const { runId, runsDir } = recording.first;
  const recorder = new RunRecorder(runId, runsDir, { follow: followSlot(recording.slot, runId, () => recorder) });
  t.after(() => recorder.end());
  const next = recording.pass("run_next");
  recorder.announce("full", {});
  assert.deepEqual(kinds(recording.first), []);
  assert.deepEqual(recording.first.closings().map(({ produced }) => produced), [0]);
  assert.deepEqual(kinds(next), ["null recorder_attached"]);
});

test("records go to the next segment if theirs was sealed by somebody else", async (t) => {
  const recording = newRecording(t);
  const claw = attach();
  begin(claw, "r1");
  const next = recording.pass("run_next");
  fs.writeFileSync(recording.first.lock, "sealed");
  await until(() => kinds(next).length > 0);
  await sleep(300);
  call(claw, "r1", "a");
  assert.deepEqual(kinds(next).filter((kind) => kind.startsWith("r1")), ["r1 tool_call", "r1 tool_result"]);
});

test("a slot of another recording, or a damaged one, changes nothing", async (t) => {
  const recording = newRecording(t);
  const claw = attach();
  call(claw, "r1", "a");
  for (const text of ['{"run_id":"run_other","status":"MONITORING"}', "{", '{"run_id":"../x","recording":1,"status":"MONITORING"}']) {
    fs.writeFileSync(recording.slot, text);
    await sleep(1200);
    call(claw, "r2", "b");
  }
  assert.equal(state().runId, recording.first.runId);
  assert.equal(kinds(recording.first).length, 9);
});
