// The files of a run: the journal that processes share, and session.json that follows it.

import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { mock, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { attach, inProcess, newRun, plugin, sequences, state, temporaryFolder } from "./support/harness.mjs";

const emit = (claw, count, content = "hello") => {
  for (let index = 0; index < count; index += 1) claw.hook("message_received", { content, index, sessionKey: "s1" });
};

// Emits once its standard input ends, so that several processes can begin at the same time.
const writer = (count, pause = 0) => `
  const claw = attach();
  process.stdout.write("ready ");
  await new Promise((resolve) => process.stdin.on("end", resolve).resume());
  for (let index = 0; index < ${count}; index += 1) {
    claw.hook("message_received", { content: "x".repeat(300), index, sessionKey: "s" + process.pid });
    if (index % 20 === 0) await new Promise((resolve) => setTimeout(resolve, ${pause}));
  }
  process.stdout.write(String(state().records.handlerErrors));`;

async function together(run, processes) {
  await Promise.all(processes.map(({ child }) => new Promise((resolve) => child.stdout.once("data", resolve))));
  let done = false;
  const results = Promise.all(processes.map(({ ended }) => ended)).finally(() => (done = true));
  for (const { go } of processes) go();
  const seen = [];
  while (!done) {
    if (fs.existsSync(run.sessionFile)) seen.push(run.session().events.length); // throws where it is not whole
    await sleep(1);
  }
  return { results: await results, seen };
}

test("two processes with 1,000 events each lose none, and session.json is valid at every instant", async (t) => {
  const run = newRun(t);
  const { results, seen } = await together(run, [inProcess(run, writer(1000, 5)), inProcess(run, writer(1000, 5))]);
  for (const { code, stdout, stderr } of results) assert.deepEqual([code, stdout, stderr], [0, "ready 0", ""]);
  const events = run.lines().filter((event) => event.event_type === "message_received");
  assert.equal(events.length, 2000);
  assert.equal(new Set(events.map((event) => event.event_id)).size, 2000);
  const { metrics, events: kept } = run.session();
  assert.equal(metrics.by_event_type.message_received, 2000);
  assert.deepEqual([metrics.total_events, kept.length], [2002, 2002]);
  assert.equal(metrics.by_source_layer.extension_api, 2002);
  assert.ok(new Set(seen).size > 1, "session.json followed while the processes wrote");
  assert.deepEqual(run.files(), ["journal.jsonl", "redaction.key", "session.json"]);
});

test("session.json has the documented shape and counts from the journal", (t) => {
  const run = newRun(t);
  const claw = attach();
  claw.hook("before_tool_call", { toolCallId: "c1", toolName: "exec", params: {} }, { runId: "r1", sessionKey: "s1" });
  claw.hook("after_tool_call", { toolCallId: "c1", toolName: "exec", error: "no", durationMs: 1 }, { runId: "r1", sessionKey: "s1" });
  plugin.updateSessionSummary();
  const session = run.session();
  assert.deepEqual([session.schema_version, session.run_id, session.session_id], ["critiqor.session.v1", run.runId, run.runId]);
  assert.deepEqual(session.metrics, {
    total_events: 3,
    by_event_type: { recorder_attached: 1, tool_call: 1, tool_result: 1 },
    by_source_layer: { extension_api: 1, tool_hooks: 2 },
    error_events: 1,
    tool_calls: 1,
  });
  assert.deepEqual(session.events, run.lines());
});

test("a record given to updateSessionSummary is appended first, whole", (t) => {
  const run = newRun(t);
  attach();
  const payload = { toolCallId: "c1", toolName: "exec", isError: true, error: "no" };
  plugin.updateSessionSummary(plugin.normalizeEvent("tool_result", payload, "tool_hooks", { sessionKey: "s1", durationMs: 7 }));
  plugin.updateSessionSummary({ event_type: "note", text: "hello", timestamp: "2020-01-01T00:00:00.000Z", status: "error" });
  const [, result, note] = run.session().events;
  assert.deepEqual(run.session().events, run.lines());
  assert.equal(run.session().metrics.total_events, 3);
  assert.deepEqual(result.payload, payload);
  assert.deepEqual([result.status, result.error, result.duration_ms, result.session_key], ["error", "no", 7, "s1"]);
  assert.deepEqual([result.tool_name, result.tool_call_id, result.source_layer], ["exec", "c1", "tool_hooks"]);
  assert.deepEqual(Object.keys(note), Object.keys(result));
  assert.deepEqual([note.timestamp, note.source_layer, note.payload], ["2020-01-01T00:00:00.000Z", "extension_api", { text: "hello" }]);
  assert.deepEqual([note.raw_event_type, note.status], ["note", "error"]);
  assert.deepEqual(sequences([result, note]), [2, 3]);
});

test("a record given to updateSessionSummary is redacted and bounded", (t) => {
  const run = newRun(t);
  attach();
  plugin.updateSessionSummary({ event_type: "note", payload: { password: "hunter2hunter2", text: "x".repeat(100_000) } });
  const { payload } = run.lines()[1];
  assert.match(payload.password, /^\[redacted:/);
  assert.equal(payload.text.cut, true);
});

test("whatever updateSessionSummary is given, it throws nothing and writes only records", (t) => {
  const run = newRun(t);
  attach();
  const unreadable = { event_type: "note", get payload() { throw new Error("no"); } };
  const refusing = new Proxy({}, { get() { throw new Error("no"); } });
  for (const given of [null, 1, "note", [], {}, { event_type: 3 }, refusing]) assert.equal(plugin.updateSessionSummary(given), undefined);
  assert.equal(run.session().metrics.total_events, 1);
  plugin.updateSessionSummary(unreadable);
  for (const timestamp of ["soon", 5, "9999-01-01T00:00:00Z", "-000001-01-01T00:00:00Z"]) plugin.updateSessionSummary({ event_type: "note", timestamp });
  assert.deepEqual(sequences(run.lines()), [1, 3, 4, 5, 6]); // the unreadable one left a hole
  for (const { event_id, timestamp } of run.lines()) {
    assert.match(event_id, /^evt_[0-9a-z]{9}_/);
    assert.ok(Math.abs(Date.parse(timestamp) - Date.now()) < 60_000);
  }
});

test("session.json follows by itself soon after an event", async (t) => {
  const run = newRun(t);
  emit(attach(), 3);
  const deadline = Date.now() + 10_000;
  while (!fs.existsSync(run.sessionFile) && Date.now() < deadline) await sleep(20);
  assert.equal(run.session().metrics.total_events, 4);
});

test("session.json is complete when the process exits, with what still waited", async (t) => {
  const run = newRun(t);
  const script = `
    const claw = attach();
    claw.stream("tool", { phase: "start", toolCallId: "c1", name: "exec" });
    claw.stream("tool", { phase: "result", toolCallId: "c1", name: "exec", result: {} });
    process.exit(7);`;
  const { code } = await inProcess(run, script).ended;
  assert.equal(code, 7);
  assert.deepEqual(run.session().events.map((event) => event.event_type), ["recorder_attached", "tool_call", "tool_result"]);
});

test("a process that is killed leaves a readable journal", async (t) => {
  const run = newRun(t);
  const script = `
    const claw = attach();
    for (let index = 0; index < 100; index += 1) claw.hook("message_received", { index });
    process.kill(process.pid, "SIGKILL");`;
  const { signal } = await inProcess(run, script).ended;
  assert.equal(signal, "SIGKILL");
  assert.equal(run.lines().length, 101);
});

test("a snapshot requested while another is being written in slices does not damage it", async (t) => {
  const run = newRun(t);
  const claw = attach();
  emit(claw, 300, "y".repeat(3000)); // several slices
  const following = state().snapshot.rewriteInSlices();
  emit(claw, 50, "z".repeat(3000));
  plugin.updateSessionSummary();
  assert.equal(run.session().metrics.total_events, 351);
  await following;
  assert.equal(run.session().metrics.total_events, 351);
  emit(claw, 1);
  await state().snapshot.rewriteInSlices();
  assert.equal(run.session().events.length, 352);
  assert.equal(run.session().metrics.total_events, 352);
});

test("torn and foreign lines in the journal are left out of session.json, again and again", async (t) => {
  const run = newRun(t);
  const claw = attach();
  emit(claw, 2);
  fs.appendFileSync(run.journal, '{"event_type": "torn\n\n[1]\nnull\n\xff\xfe\n');
  emit(claw, 2);
  for (const round of [1, 2]) {
    emit(claw, round);
    await state().snapshot.rewriteInSlices();
    assert.equal(run.session().events.length, run.session().metrics.total_events);
  }
  assert.equal(run.session().metrics.total_events, 8);
});

test("non-ASCII text comes through the journal and session.json unchanged", (t) => {
  const run = newRun(t);
  emit(attach(), 1, "Größe 日本語 😀\u2028\u00a0");
  plugin.updateSessionSummary();
  assert.equal(run.session().events[1].payload.content, "Größe 日本語 😀\u2028\u00a0");
});

test("a sealed session.json is never replaced again, and nobody notices", async (t) => {
  const run = newRun(t);
  const claw = attach();
  emit(claw, 2);
  plugin.updateSessionSummary();
  fs.writeFileSync(run.lock, "sealed");
  fs.writeFileSync(run.sessionFile, '{"sealed": true}');
  emit(claw, 2);
  await state().snapshot.rewriteInSlices();
  plugin.updateSessionSummary();
  emit(claw, 2);
  await state().snapshot.rewriteInSlices();
  const { code } = await inProcess(run, `const claw = attach(); claw.hook("message_received", {});`).ended;
  assert.equal(code, 0);
  assert.deepEqual(run.session(), { sealed: true });
  assert.equal(fs.readFileSync(run.lock, "utf8"), "sealed");
  assert.equal(fs.readdirSync(run.folder).filter((name) => name.endsWith(".tmp")).length, 0);
});

test("a recorder that comes after the run was sealed writes nothing at all", async (t) => {
  const run = newRun(t);
  fs.mkdirSync(run.folder);
  fs.writeFileSync(run.lock, "sealed");
  fs.writeFileSync(run.sessionFile, "{}");
  fs.writeFileSync(run.journal, "");
  const script = `
    const claw = attach();
    claw.hook("message_received", {});
    plugin.updateSessionSummary({ event_type: "note" });
    process.stdout.write([state().journal.lost, state().records.handlerErrors].join());`;
  const { code, stdout, stderr } = await inProcess(run, script).ended;
  assert.deepEqual([code, stdout, stderr], [0, "0,0", ""]);
  assert.deepEqual(fs.readdirSync(run.folder).sort(), ["journal.jsonl", "session.json", "session.json.lock"]);
  assert.equal(run.text(), "");
});

test("a seal set while an old lock is being dropped survives", (t) => {
  const run = newRun(t);
  emit(attach(), 2);
  fs.writeFileSync(run.lock, "4711");
  fs.utimesSync(run.lock, 1, 1);
  const { statSync } = fs;
  mock.method(fs, "statSync", (file, ...rest) => {
    const stat = statSync(file, ...rest);
    if (file === run.lock) fs.writeFileSync(run.lock, "sealed"); // between the look and the deed
    return stat;
  });
  t.after(() => mock.restoreAll());
  plugin.updateSessionSummary();
  assert.equal(fs.readFileSync(run.lock, "utf8"), "sealed");
  assert.equal(fs.existsSync(run.sessionFile), false);
});

test("a lock that a dead process left behind is dropped", (t) => {
  const run = newRun(t);
  emit(attach(), 2);
  fs.writeFileSync(run.lock, "4711");
  fs.utimesSync(run.lock, 1, 1);
  plugin.updateSessionSummary();
  assert.equal(run.session().metrics.total_events, 3);
  assert.equal(fs.existsSync(run.lock), false);
});

test("a lock that vanishes while it is looked at does not keep session.json from being complete", (t) => {
  const run = newRun(t);
  emit(attach(), 2);
  fs.writeFileSync(run.lock, "4711");
  const { readFileSync } = fs;
  mock.method(fs, "readFileSync", (file, ...rest) => {
    if (file === run.lock) fs.rmSync(run.lock, { force: true });
    return readFileSync(file, ...rest);
  });
  t.after(() => mock.restoreAll());
  plugin.updateSessionSummary();
  assert.equal(run.session().metrics.total_events, 3);
});

test("a full disk loses records, disturbs nobody and leaves a hole", async (t) => {
  const run = newRun(t);
  fs.mkdirSync(run.folder);
  fs.symlinkSync("/dev/full", run.journal);
  const claw = attach();
  emit(claw, 3);
  assert.deepEqual([state().journal.lost, state().journal.written, state().records.handlerErrors], [4, 0, 0]);
  fs.unlinkSync(run.journal);
  await state().snapshot.rewriteInSlices();
  emit(claw, 2);
  assert.deepEqual(sequences(run.lines()), [5, 6]);
});

test("a write that stops half-way costs that record alone", (t) => {
  const run = newRun(t);
  const claw = attach();
  emit(claw, 1);
  const { writeSync } = fs;
  const half = mock.method(fs, "writeSync", (descriptor, bytes, ...rest) => writeSync(descriptor, bytes, 0, 40, ...rest.slice(2)), { times: 1 });
  emit(claw, 1);
  half.mock.restore();
  emit(claw, 2);
  const lines = run.text().split("\n").slice(0, -1);
  assert.equal(lines.length, 5);
  const whole = lines.filter((_, index) => index !== 2).map((line) => JSON.parse(line));
  assert.deepEqual(sequences(whole), [1, 2, 4, 5]);
  plugin.updateSessionSummary();
  assert.equal(run.session().metrics.total_events, 4);
});

test("a record that cannot be serialised leaves no empty line behind", (t) => {
  const run = newRun(t);
  const claw = attach();
  emit(claw, 1);
  mock.method(JSON, "stringify", () => { throw new RangeError("out of memory"); });
  emit(claw, 1);
  mock.restoreAll();
  emit(claw, 1);
  assert.deepEqual(sequences(run.lines()), [1, 2, 4]);
});

test("a missing folder is made, with files for their owner alone", (t) => {
  const run = newRun(t, { runsDir: path.join(temporaryFolder(t), "not", "yet") });
  emit(attach(), 1);
  assert.equal(run.lines().length, 2);
  assert.equal(fs.statSync(run.folder).mode & 0o777, 0o700);
  for (const name of fs.readdirSync(run.folder)) assert.equal(fs.statSync(path.join(run.folder, name)).mode & 0o777, 0o600, name);
});

test("a folder that cannot be made disturbs nobody, and recording begins when it can", (t) => {
  const parent = temporaryFolder(t);
  const blocked = path.join(parent, "runs");
  fs.writeFileSync(blocked, "a file");
  const run = newRun(t, { runsDir: blocked });
  const claw = attach();
  emit(claw, 3);
  plugin.updateSessionSummary();
  assert.equal(state().records.handlerErrors, 0);
  fs.unlinkSync(blocked);
  emit(claw, 1);
  assert.equal(fs.existsSync(run.journal), false); // not tried again on every event
  state().journal.retryAt = 0;
  emit(claw, 1);
  assert.deepEqual(sequences(run.lines()), [6]);
});

test("a folder deleted in the middle of a run is made again, and the hole can be seen", async (t) => {
  const run = newRun(t);
  const claw = attach();
  emit(claw, 3);
  plugin.updateSessionSummary();
  fs.rmSync(run.folder, { recursive: true });
  emit(claw, 1);
  await state().snapshot.rewriteInSlices();
  emit(claw, 6);
  await state().snapshot.rewriteInSlices();
  assert.deepEqual(sequences(run.lines()), [6, 7, 8, 9, 10, 11]);
  assert.equal(run.session().metrics.total_events, 6);
  assert.equal(state().records.handlerErrors, 0);
});

test("a disk without links still gets one redaction key, and no litter", (t) => {
  const run = newRun(t);
  mock.method(fs, "linkSync", () => { throw Object.assign(new Error("not permitted"), { code: "EPERM" }); });
  t.after(() => mock.restoreAll());
  emit(attach(), 1);
  assert.equal(run.lines().length, 2);
  assert.deepEqual(run.files(), ["journal.jsonl", "redaction.key"]);
});

test("a redaction key that cannot be written leaves no litter", (t) => {
  const run = newRun(t);
  const { writeFileSync } = fs;
  mock.method(fs, "writeFileSync", (file, ...rest) => {
    writeFileSync(file, "", ...rest.slice(1));
    throw Object.assign(new Error("no space left"), { code: "ENOSPC" });
  });
  t.after(() => mock.restoreAll());
  emit(attach(), 1);
  assert.deepEqual(fs.readdirSync(run.folder), []);
});

test("event ids sort in the order of time, also across processes and when the clock steps back", (t) => {
  const run = newRun(t);
  const claw = attach();
  const now = Date.now();
  for (const step of [0, 5, -100_000, 6]) {
    mock.method(Date, "now", () => now + step);
    emit(claw, 1);
    mock.restoreAll();
  }
  const lines = run.lines();
  const ids = lines.map((event) => event.event_id);
  assert.deepEqual(ids, ids.toSorted());
  for (const id of ids) assert.match(id, /^evt_[0-9a-z]{9}_[0-9a-z]+_[0-9a-z]{5}$/);
  const times = lines.map((event) => event.timestamp);
  assert.deepEqual(times, times.toSorted());
});

for (const [name, time] of [["before 1970", -5_000_000_000], ["in the far future", 8.6e15]]) {
  test(`a clock ${name} loses no record, and ids stay valid and in order`, (t) => {
    const run = newRun(t);
    mock.method(Date, "now", () => time);
    t.after(() => mock.restoreAll());
    const claw = attach();
    emit(claw, 2);
    mock.restoreAll();
    emit(claw, 1);
    const lines = run.lines();
    assert.deepEqual(sequences(lines), [1, 2, 3, 4]);
    const ids = lines.map((event) => event.event_id);
    assert.deepEqual(ids, ids.toSorted());
    for (const id of ids) assert.match(id, /^evt_[0-9a-z]{9}_[0-9a-z]+_[0-9a-z]{5}$/);
    for (const { timestamp } of lines) assert.match(timestamp, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  });
}

test("a start that is known from a duration with a fraction has a valid id", (t) => {
  const run = newRun(t);
  const claw = attach();
  claw.hook("after_tool_call", { toolCallId: "c1", toolName: "exec", error: "no such tool", durationMs: 1.25 }, { runId: "r1", sessionKey: "s1" });
  state().records.flush();
  assert.ok(run.lines().length > 1);
  for (const { event_id } of run.lines()) assert.match(event_id, /^evt_[0-9a-z]{9}_[0-9a-z]+_[0-9a-z]{5}$/);
});
