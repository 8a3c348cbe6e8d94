// An OpenClaw that outlives a run: how the recorder learns where to record, and what it does when that changes.

import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { mock, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { attach, inProcess, plugin, temporaryFolder } from "./support/harness.mjs";

const ATTACHED = Symbol.for("critiqor.attachment");
const attachment = () => globalThis[ATTACHED];

/** A service: the file that `critiqor attach` writes, runs folders as `critiqor` leaves them, and how it was started. */
function newService(t, ...words) {
  const { argv } = process;
  process.argv = [...argv.slice(0, 2), ...(words.length > 0 ? words : ["gateway", "run"])];
  delete process.env.CRITIQOR_RUN_ID;
  delete process.env.CRITIQOR_RUNS_DIR;
  const folder = temporaryFolder(t);
  const file = path.join(folder, "attachment.json");
  const runsDir = path.join(folder, "runs");
  const slot = path.join(runsDir, "active_session.json");
  const service = {
    file,
    runsDir,
    slot,
    /** A new session, as `critiqor attach` makes one. */
    begin(runId, status = "MONITORING") {
      fs.mkdirSync(path.join(runsDir, runId), { recursive: true });
      this.claim(runId, status);
      fs.writeFileSync(file, JSON.stringify({ run_id: runId, runs_dir: runsDir }));
      return this.run(runId);
    },
    claim: (runId, status = "MONITORING") => fs.writeFileSync(slot, JSON.stringify({ run_id: runId, status })),
    release: () => fs.rmSync(slot),
    /** Settings are there, and nothing to record yet. */
    prepare: () => fs.writeFileSync(file, JSON.stringify({ run_id: null, runs_dir: null })),
    register: (mode = "full") => attach({ mode, config: { attachment: file } }),
    run: (runId) => ({
      folder: path.join(runsDir, runId),
      events() {
        attachment()?.current?.records.flush();
        const journal = path.join(runsDir, runId, "journal.jsonl");
        const lines = fs.existsSync(journal) ? fs.readFileSync(journal, "utf8").split("\n").slice(0, -1) : [];
        return lines.map((line) => JSON.parse(line));
      },
      kinds() {
        return this.events().map((event) => event.event_type);
      },
    }),
  };
  t.after(() => {
    process.argv = argv;
    attachment()?.stop();
    delete globalThis[ATTACHED];
  });
  return service;
}

const tool = (claw, runId, toolCallId = "c1", sessionKey = "s1") => {
  const context = { runId, sessionKey };
  claw.hook("before_tool_call", { toolCallId, toolName: "exec", params: {} }, context);
  claw.hook("after_tool_call", { toolCallId, toolName: "exec", result: {}, durationMs: 1 }, context);
};

async function until(condition) {
  const deadline = Date.now() + 20_000;
  while (!condition() && Date.now() < deadline) await sleep(20);
  assert.ok(condition());
}

test("an attached gateway records into the run that the file names, and announces itself first", (t) => {
  const service = newService(t);
  const run = service.begin("run_1");
  tool(service.register(), "r1");
  assert.deepEqual(run.kinds(), ["recorder_attached", "tool_call", "tool_result"]);
  const { payload } = run.events()[0];
  assert.deepEqual([payload.attached, payload.mode, payload.pid], [true, "full", process.pid]);
});

test("without a file, a run or a session nothing is recorded, and no folder is made", (t) => {
  const service = newService(t);
  const claw = service.register();
  tool(claw, "r1");
  service.prepare();
  tool(claw, "r2");
  fs.writeFileSync(service.file, JSON.stringify({ run_id: "run_1", runs_dir: service.runsDir }));
  tool(claw, "r3");
  assert.equal(fs.existsSync(service.runsDir), false);
});

test("a session that begins later is noticed by itself, while nothing happens", async (t) => {
  const service = newService(t);
  service.prepare();
  service.register();
  const run = service.begin("run_1");
  await until(() => run.kinds().length > 0);
  assert.deepEqual(run.kinds(), ["recorder_attached"]);
});

test("an agent run that begins right after the session is recorded from its first event", (t) => {
  const service = newService(t);
  service.prepare();
  const claw = service.register();
  const run = service.begin("run_1");
  tool(claw, "r1");
  assert.deepEqual(run.kinds(), ["recorder_attached", "tool_call", "tool_result"]);
});

for (const [words, mode] of [
  [["agent", "--message", "hello"], "full"], // a client of the gateway
  [["plugins", "list"], "discovery"],
  [["gateway", "status"], "full"],
  [["chat"], "discovery"],
]) {
  test(`openclaw ${words.join(" ")} leaves no trace by loading the recorder, and announces it when there is something`, (t) => {
    const service = newService(t, ...words);
    const run = service.begin("run_1");
    const claw = service.register(mode);
    attachment().refresh();
    assert.deepEqual(run.kinds(), []);
    claw.stream("tool", { phase: "start", toolCallId: "c1", name: "exec" });
    assert.deepEqual(run.kinds(), ["recorder_attached", "tool_call"]);
  });
}

for (const words of [["gateway"], ["gateway", "run", "--port", "1"], ["gateway", "--port", "1"], ["--profile", "work", "gateway"]]) {
  test(`openclaw ${words.join(" ")} announces the recorder at once`, (t) => {
    const service = newService(t, ...words);
    const run = service.begin("run_1");
    service.register();
    assert.deepEqual(run.kinds(), ["recorder_attached"]);
  });
}

test("a saved message goes with the agent run of its session", (t) => {
  const service = newService(t);
  const run = service.begin("run_1");
  const claw = service.register();
  claw.hook("before_agent_run", {}, { runId: "r1", sessionKey: "s1" });
  claw.transcript({ sessionKey: "s1", messageId: "m1", message: { role: "user", content: "hello" } });
  const input = run.events().find((event) => event.event_type === "input");
  assert.deepEqual([input.agent_run_id, input.payload.text], ["r1", "hello"]);
});

for (const [how, finish] of [
  ["finalized", (service) => service.claim("run_1", "FINALIZING")],
  ["completed or aborted", (service) => service.release()],
  ["detached", (service) => fs.rmSync(service.file)],
  ["replaced by a monitor's", (service) => service.claim("run_9")],
]) {
  test(`nothing more is written to a session that was ${how}`, async (t) => {
    const service = newService(t);
    const run = service.begin("run_1");
    const claw = service.register();
    tool(claw, "r1");
    const before = run.kinds();
    finish(service);
    await until(() => attachment().current === null);
    tool(claw, "r1", "c2");
    tool(claw, "r2");
    claw.transcript({ sessionKey: "s1", messageId: "m1", message: { role: "assistant", content: "done" } });
    claw.hook("message_received", { content: "hello", sessionKey: "s1" });
    assert.deepEqual(run.kinds(), before);
    assert.equal(fs.existsSync(path.join(service.runsDir, "run_9")), false);
  });
}

test("an agent run stays with the session in which it was first seen", (t) => {
  const service = newService(t);
  const first = service.begin("run_1");
  const claw = service.register();
  tool(claw, "r1");
  const second = service.begin("run_2");
  tool(claw, "r2", "c1", "s2");
  tool(claw, "r1", "c2");
  claw.transcript({ sessionKey: "s1", messageId: "m1", message: { role: "assistant", content: "late" } });
  claw.transcript({ sessionKey: "s2", messageId: "m2", message: { role: "assistant", content: "done" } });
  assert.deepEqual(first.kinds(), ["recorder_attached", "tool_call", "tool_result"]);
  assert.deepEqual(second.kinds(), ["recorder_attached", "tool_call", "tool_result", "message_end"]);
  assert.deepEqual(new Set(second.events().slice(1).map((event) => event.agent_run_id)), new Set(["r2"]));
});

test("an agent run that was under way before the session is not recorded by half", (t) => {
  const service = newService(t);
  service.prepare();
  const claw = service.register();
  claw.hook("before_agent_run", {}, { runId: "r1", sessionKey: "s1" });
  const run = service.begin("run_1");
  tool(claw, "r1");
  tool(claw, "r2");
  assert.deepEqual([...new Set(run.events().map((event) => event.agent_run_id))], [null, "r2"]);
});

test("what waited for a richer source is written when its session makes way for another", (t) => {
  const service = newService(t);
  const first = service.begin("run_1");
  const claw = service.register();
  claw.stream("tool", { phase: "start", toolCallId: "c1", name: "exec" });
  claw.stream("tool", { phase: "result", toolCallId: "c1", name: "exec", result: {} });
  service.begin("run_2");
  tool(claw, "r2");
  assert.deepEqual(first.kinds(), ["recorder_attached", "tool_call", "tool_result"]);
});

test("session.json of a session that made way follows its journal, in slices", async (t) => {
  const service = newService(t);
  const first = service.begin("run_1");
  const claw = service.register();
  tool(claw, "r1");
  service.begin("run_2");
  tool(claw, "r2");
  const document = path.join(first.folder, "session.json");
  await until(() => fs.existsSync(document));
  assert.equal(JSON.parse(fs.readFileSync(document)).metrics.total_events, 3);
});

test("many sessions in one process leave neither listeners nor open files behind", (t) => {
  const service = newService(t);
  const claw = service.register();
  service.begin("run_1");
  tool(claw, "r1");
  const listeners = process.listenerCount("exit");
  const files = fs.readdirSync("/proc/self/fd").length;
  for (let number = 2; number <= 40; number += 1) {
    service.begin(`run_${number}`);
    tool(claw, `r${number}`);
  }
  assert.equal(process.listenerCount("exit"), listeners);
  assert.equal(fs.readdirSync("/proc/self/fd").length, files);
});

test("what is remembered of agent runs is bounded", (t) => {
  const service = newService(t);
  service.begin("run_1");
  const claw = service.register();
  for (let number = 0; number < 3000; number += 1) claw.agent({ runId: `r${number}`, sessionKey: `s${number}`, stream: "item", data: {} });
  assert.ok(attachment().owners.size <= 1000);
});

test("a runs folder that is removed is not made again, and the agent is not disturbed", async (t) => {
  const service = newService(t);
  service.begin("run_1");
  const claw = service.register();
  tool(claw, "r1");
  const { snapshot, records } = attachment().current;
  fs.rmSync(service.runsDir, { recursive: true });
  tool(claw, "r1", "c2");
  await snapshot.rewriteInSlices();
  tool(claw, "r1", "c3");
  tool(claw, "r2");
  assert.equal(fs.existsSync(service.runsDir), false);
  assert.equal(records.handlerErrors, 0);
  const run = service.begin("run_2");
  tool(claw, "r3");
  assert.deepEqual(run.kinds(), ["recorder_attached", "tool_call", "tool_result"]);
});

test("a full disk and a run that cannot be written disturb nobody", (t) => {
  const service = newService(t);
  const run = service.begin("run_1");
  fs.symlinkSync("/dev/full", path.join(run.folder, "journal.jsonl"));
  const claw = service.register();
  assert.deepEqual(claw.hook("before_tool_call", { toolCallId: "c1", toolName: "exec" }, { runId: "r1" }), [undefined]);
  assert.deepEqual([attachment().current.journal.written, attachment().current.records.handlerErrors], [0, 0]);
});

for (const [what, content] of [
  ["no JSON", "{"],
  ["nothing", ""],
  ["null", "null"],
  ["a run outside of its folder", JSON.stringify({ run_id: "../run_1", runs_dir: "/" })],
  ["a folder that depends on where it is read", JSON.stringify({ run_id: "run_1", runs_dir: "runs" })],
  ["too much", " ".repeat(1 << 17) + "{}"],
]) {
  test(`a file that holds ${what} is as good as none, until it is mended`, (t) => {
    const service = newService(t);
    fs.writeFileSync(service.file, content);
    const claw = service.register();
    tool(claw, "r1");
    assert.equal(attachment().current, null);
    const run = service.begin("run_1");
    tool(claw, "r2");
    assert.equal(run.kinds().length, 3);
  });
}

test("a hostile event is a hole in the run, and nothing is thrown", (t) => {
  const service = newService(t);
  service.begin("run_1");
  const claw = service.register();
  const hostile = new Proxy({}, { get() { throw new Error("no"); } });
  assert.deepEqual(claw.hook("before_tool_call", hostile, hostile), [undefined]);
  assert.deepEqual(claw.agent(hostile), [undefined]);
  assert.deepEqual(claw.transcript(hostile), [undefined]);
  assert.equal(attachment().current.records.handlerErrors, 3);
});

test("a poll that fails does not end the process", (t) => {
  const service = newService(t);
  service.begin("run_1");
  service.register();
  mock.method(attachment(), "refresh", () => { throw new Error("no"); });
  try {
    assert.equal(attachment().poll(), undefined);
  } finally {
    mock.restoreAll();
  }
});

test("several registrations of one process share one recorder and say each thing once", (t) => {
  const service = newService(t);
  const run = service.begin("run_1");
  const claw = service.register();
  service.register("discovery");
  service.register();
  tool(claw, "r1");
  assert.deepEqual(run.kinds(), ["recorder_attached", "recorder_attached", "tool_call", "tool_result"]);
});

test("an attachment elsewhere takes the place of the one before", (t) => {
  const before = newService(t);
  const old = before.begin("run_1");
  const claw = before.register();
  const service = newService(t);
  const run = service.begin("run_1");
  tool(service.register(), "r1");
  tool(claw, "r2"); // subscribed by a plugin that OpenClaw has unloaded, and called all the same
  assert.deepEqual(old.kinds(), ["recorder_attached"]);
  assert.equal(run.kinds().length, 3);
});

test("a monitored process records its own run, whatever its configuration is attached to", async (t) => {
  const service = newService(t);
  const attached = service.begin("run_1");
  const monitored = { runId: "run_2", runsDir: service.runsDir };
  const config = JSON.stringify({ attachment: service.file });
  const script = `attach({ config: ${config} }).hook("message_received", { content: "hello" });`;
  assert.equal((await inProcess(monitored, script).ended).code, 0);
  assert.deepEqual(attached.kinds(), []);
  assert.deepEqual(service.run("run_2").kinds(), ["recorder_attached", "message_received"]);
});

test("an attached process ends when it has nothing more to do, with session.json complete", async (t) => {
  const service = newService(t);
  const run = service.begin("run_1");
  const config = JSON.stringify({ attachment: service.file });
  const script = `attach({ config: ${config} }).hook("message_received", { content: "hello" });`;
  const { code, stderr } = await inProcess({ runId: "", runsDir: "" }, script).ended;
  assert.deepEqual([code, stderr], [0, ""]);
  assert.equal(JSON.parse(fs.readFileSync(path.join(run.folder, "session.json"))).metrics.total_events, 2);
});

test("updateSessionSummary brings the attached session up to its journal, and does nothing without one", (t) => {
  const service = newService(t);
  service.prepare();
  service.register();
  assert.equal(plugin.updateSessionSummary({ event_type: "note" }), undefined);
  const run = service.begin("run_1");
  attachment().refresh();
  plugin.updateSessionSummary({ event_type: "note" });
  assert.equal(JSON.parse(fs.readFileSync(path.join(run.folder, "session.json"))).metrics.total_events, 2);
});
