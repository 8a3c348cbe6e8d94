// The documented surface of the plugin, and the documented event names on an OpenClaw that has them.

import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";

import { attach, newRun, plugin, state, stopClock, temporaryFolder } from "./support/harness.mjs";

const EXTENSION_EVENTS = [
  "agent_start", "agent_end", "turn_start", "turn_end", "session_start", "session_end", "before_provider_request",
  "after_provider_response", "message_received", "message_sent", "message_start", "message_update", "message_end", "input",
  "user_bash",
];
const TOOL_EVENTS = ["tool_call", "tool_result", "tool_execution_start", "tool_execution_update", "tool_execution_end"];
const context = { runId: "r1", sessionKey: "s1" };
const types = (events) => events.map((event) => event.event_type);

test("the documented exports are there", () => {
  assert.equal(plugin.default.id, "critiqor");
  assert.equal(plugin.default.register, plugin.register);
  for (const name of ["definePluginEntry", "register", "safeSubscribe", "normalizeEvent", "nowIso", "updateSessionSummary"]) {
    assert.equal(typeof plugin[name], "function", name);
  }
  assert.ok(plugin.START_TIME_BY_TOOL_CALL instanceof Map);
  const entry = { id: "x", register() {} };
  assert.equal(plugin.definePluginEntry(entry), entry);
  assert.match(plugin.nowIso(), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
});

test("normalizeEvent fills the envelope, with a null duration at the call and the elapsed time at its result", (t) => {
  const tick = stopClock(t);
  const call = plugin.normalizeEvent("tool_call", { toolCallId: "c1", toolName: "exec" }, "tool_hooks");
  assert.equal(call.duration_ms, null);
  assert.equal(call.status, "ok");
  assert.equal(plugin.START_TIME_BY_TOOL_CALL.size, 1);
  tick(40);
  const result = plugin.normalizeEvent("tool_result", { tool_call_id: "c1", tool_name: "exec", isError: true, error: "no" }, "tool_hooks");
  assert.equal(result.duration_ms, 40);
  assert.deepEqual([result.status, result.error, result.tool_name, result.tool_call_id], ["error", "no", "exec", "c1"]);
  assert.equal(plugin.START_TIME_BY_TOOL_CALL.size, 0);
  const envelope = [
    "event_id", "event_type", "raw_event_type", "timestamp", "source_layer", "session_key", "agent_run_id", "tool_name",
    "tool_call_id", "status", "error", "duration_ms", "payload",
  ];
  assert.deepEqual(Object.keys(result), envelope);
});

test("normalizeEvent takes its layer and its payload in either order", (t) => {
  stopClock(t);
  const payload = { toolName: "exec", isError: true, error: "no" };
  const known = { sessionKey: "s1" };
  assert.deepEqual(
    plugin.normalizeEvent("tool_result", "tool_hooks", payload, known),
    plugin.normalizeEvent("tool_result", payload, "tool_hooks", known),
  );
  assert.deepEqual(plugin.normalizeEvent("input", "text", "extension_api").payload, {});
});

test("every documented name is subscribed to, in its layer", (t) => {
  newRun(t);
  const { handlers } = attach();
  for (const name of [...EXTENSION_EVENTS, ...TOOL_EVENTS]) assert.equal(handlers.get(name)?.length, 1, name);
  assert.deepEqual(plugin.DOCUMENTED_EVENTS, { extension_api: EXTENSION_EVENTS, tool_hooks: TOOL_EVENTS });
});

for (const version of ["2026.6.1", "2026.7.31-beta.2", "2026.9.6"]) {
  test(`${version} is asked for none of the names that it does not know: each would be a warning in its log`, (t) => {
    newRun(t);
    const asked = [...attach({ version }).handlers.keys()];
    const documented = [...EXTENSION_EVENTS, ...TOOL_EVENTS].filter((name) => asked.includes(name));
    assert.deepEqual(documented, ["agent_end", "session_start", "session_end", "message_received", "message_sent"]);
    for (const name of ["before_agent_run", "model_call_started", "before_tool_call", "gateway_stop"]) assert.ok(asked.includes(name), name);
  });
}

for (const version of ["2026.5.31", "2026.6.0", "2026.9.7", "2026.10.1", "2027.1.0", "stand-in", undefined, null, 7]) {
  test(`of ${version} nothing is known, so it is offered every name`, (t) => {
    newRun(t);
    const api = { registrationMode: "full", asked: [], on: (name) => api.asked.push(name), runtime: { version } };
    plugin.default.register(api);
    for (const name of [...EXTENSION_EVENTS, ...TOOL_EVENTS]) assert.ok(api.asked.includes(name), name);
  });
}

test("a name that an OpenClaw does not know is ignored, and the others still work", (t) => {
  const run = newRun(t);
  const claw = attach({ knows: (name) => name === "message_received" });
  assert.equal(plugin.safeSubscribe(claw.api, "agent_start", "extension_api"), false);
  claw.hook("message_received", { content: "hello", sessionKey: "s1" });
  assert.deepEqual(types(run.events()), ["message_received"]);
});

test("tool_call, tool_result and tool_execution_* of one call fold into one pair", (t) => {
  const tick = stopClock(t);
  const run = newRun(t);
  const claw = attach();
  const call = { toolCallId: "c1", toolName: "exec", args: { command: "ls" }, runId: "r1" };
  for (const round of [1, 2]) {
    claw.hook("tool_execution_start", call);
    claw.hook("tool_call", { ...call, input: call.args });
    claw.hook("tool_execution_update", { ...call, partialResult: "a" });
    tick(10 * round);
    claw.hook("tool_result", { ...call, content: [{ type: "text", text: "a" }], details: { exitCode: round - 1 }, isError: false });
    claw.hook("tool_execution_end", { ...call, result: { content: [] }, isError: false });
  }
  const events = run.events();
  assert.deepEqual(types(events), ["tool_call", "tool_result", "tool_call", "tool_result"]);
  assert.deepEqual(events.map((event) => event.duration_ms), [null, 10, null, 20]);
  assert.deepEqual(events.map((event) => event.status), ["ok", "ok", "ok", "error"]);
  assert.equal(events[3].error, "exit code 1");
  assert.equal(events[1].payload.updates, 1);
});

test("documented tool names beside hooks and streams of the same calls are recorded once", (t) => {
  stopClock(t);
  const run = newRun(t);
  const claw = attach();
  for (const id of ["call_0", "call_0", "call_1"]) {
    const call = { toolCallId: id, toolName: "read", runId: "r1" };
    claw.hook("tool_execution_start", { ...call, args: { path: "a" } });
    claw.stream("tool", { phase: "start", toolCallId: id, name: "read", args: { path: "a" } });
    claw.hook("before_tool_call", { ...call, params: { path: "a" } }, context);
    claw.stream("tool", { phase: "result", toolCallId: id, name: "read", result: {}, isError: false });
    claw.hook("after_tool_call", { ...call, params: {}, result: {}, durationMs: 5 }, context);
    claw.hook("tool_execution_end", { ...call, result: {} });
  }
  assert.deepEqual(types(run.events()), Array(3).fill(["tool_call", "tool_result"]).flat());
});

test("a run reported only under documented names has its turns, requests and messages once each", (t) => {
  stopClock(t);
  const run = newRun(t);
  const claw = attach({ knows: (name) => [...EXTENSION_EVENTS, ...TOOL_EVENTS].includes(name) });
  const usage = { input: 10, output: 2, cost: { total: 0.1 } };
  const names = ["agent_start", "turn_start", "before_provider_request", "after_provider_response", "turn_end", "agent_end"];
  for (const name of names) claw.hook(name, { ...context, ...(name === "after_provider_response" ? { usage, status: 200 } : {}) });
  const events = run.events();
  assert.deepEqual(types(events), names);
  assert.deepEqual(events[3].payload.usage, usage);
  assert.equal(events[1].payload.turn, 1);
  assert.equal(events[3].payload.turn, 1);
});

test("documented turns and requests beside hooks, stream and transcript of the same model call are recorded once", (t) => {
  stopClock(t);
  const run = newRun(t);
  const claw = attach();
  const model = { provider: "p", model: "m", callId: "r1:model:1" };
  const message = { role: "assistant", content: "hi", usage: { output: 3 }, stopReason: "stop" };
  claw.hook("agent_start", context);
  claw.hook("before_agent_run", {}, context);
  claw.stream("lifecycle", { phase: "start" });
  claw.hook("turn_start", context);
  claw.hook("before_provider_request", { ...context, ...model });
  claw.hook("model_call_started", model, context);
  claw.stream("lifecycle", { phase: "model", ...model });
  claw.hook("after_provider_response", { ...context, status: 200 });
  claw.hook("model_call_ended", { ...model, outcome: "completed", durationMs: 3 }, context);
  claw.hook("message_end", { ...context, message });
  claw.transcript({ sessionKey: "s1", messageId: "m1", message });
  claw.hook("turn_end", context);
  claw.stream("lifecycle", { phase: "end" });
  claw.hook("agent_end", { success: true }, context);
  const expected = ["agent_start", "turn_start", "before_provider_request", "after_provider_response", "message_end", "turn_end", "agent_end"];
  assert.deepEqual(types(run.events()).toSorted(), expected.toSorted());
  assert.deepEqual(run.of("after_provider_response")[0].payload.usage, { output: 3 });
});

test("an HTTP status of 400 and more under a documented name is an error, and agent_end is not believed", (t) => {
  stopClock(t);
  const run = newRun(t);
  const claw = attach();
  claw.hook("agent_start", context);
  claw.hook("before_provider_request", context);
  claw.hook("after_provider_response", { ...context, status: 503 });
  claw.hook("agent_end", { success: true }, context);
  assert.deepEqual(run.of("after_provider_response").map((event) => [event.status, event.error]), [["error", "HTTP 503"]]);
  assert.deepEqual(run.of("agent_end").map((event) => [event.status, event.error]), [["error", "HTTP 503"]]);
});

test("names without a special meaning are recorded under their own, with their payload", (t) => {
  const run = newRun(t);
  const claw = attach();
  claw.hook("user_bash", { command: "ls", ...context });
  claw.hook("message_update", { delta: "a", ...context });
  claw.hook("message_sent", { success: false, error: "channel is closed", ...context });
  const [bash, update, sent] = run.events();
  assert.deepEqual([bash.event_type, bash.payload.command, bash.source_layer], ["user_bash", "ls", "extension_api"]);
  assert.equal(update.event_type, "message_update");
  assert.deepEqual([sent.status, sent.error], ["error", "channel is closed"]);
});

for (const name of EXTENSION_EVENTS) {
  test(`${name} is recorded under its name when OpenClaw emits it`, (t) => {
    stopClock(t);
    const run = newRun(t);
    const message = { role: name === "input" ? "user" : "assistant", content: "hello" };
    attach().hook(name, { ...context, text: "hello", message });
    plugin.updateSessionSummary();
    const found = run.session().events.filter((event) => event.event_type === name);
    assert.deepEqual(found.map((event) => [event.source_layer, event.agent_run_id, event.session_key]), [["extension_api", "r1", "s1"]]);
  });
}

test("several registrations in several modes: one recorder_attached a mode and no record twice", (t) => {
  stopClock(t);
  const run = newRun(t);
  const claw = attach();
  for (const mode of ["discovery", "full", "discovery"]) plugin.register({ ...claw.api, registrationMode: mode });
  plugin.register(claw.api);
  claw.hook("before_tool_call", { toolCallId: "c1", toolName: "exec", params: {} }, context);
  claw.hook("after_tool_call", { toolCallId: "c1", toolName: "exec", result: {}, durationMs: 1 }, context);
  claw.hook("message_received", { content: "hello" }, context);
  claw.stream("run_status", { phase: "retrying" });
  assert.deepEqual(types(run.events()), ["tool_call", "tool_result", "message_received", "provider_retry"]);
  const attached = run.lines().filter((event) => event.event_type === "recorder_attached");
  assert.deepEqual(attached.map((event) => event.payload.mode), ["full", "discovery"]);
});

test("registrations that share an `on` of their class each get their subscriptions", (t) => {
  stopClock(t);
  const run = newRun(t);
  class Api {
    constructor(mode) {
      this.registrationMode = mode;
      this.handlers = new Map();
    }

    on(name, handler) {
      this.handlers.set(name, [...(this.handlers.get(name) ?? []), handler]);
    }
  }
  const [discovery, full] = ["discovery", "full"].map((mode) => new Api(mode));
  for (const api of [discovery, full, full]) plugin.register(api);
  assert.deepEqual([...full.handlers.keys()], [...discovery.handlers.keys()]);
  for (const [name, handlers] of full.handlers) assert.equal(handlers.length, 1, name);
  full.handlers.get("message_received")[0]({ content: "hello" }, context);
  assert.deepEqual(types(run.events()), ["message_received"]);
});

test("registrations that have one and the same `on` of their own are subscribed once", (t) => {
  newRun(t);
  const names = [];
  const on = (name) => names.push(name);
  for (const mode of ["discovery", "full"]) plugin.register({ registrationMode: mode, on });
  assert.ok(names.length > 20);
  assert.equal(new Set(names).size, names.length);
});

test("an emitter that calls a listener as often as it was added does not double the stream", (t) => {
  const run = newRun(t);
  const listeners = [];
  const events = { onAgentEvent: (listener) => listeners.push(listener), onSessionTranscriptUpdate() {} };
  for (const mode of ["discovery", "discovery", "discovery"]) plugin.register({ registrationMode: mode, on() {}, runtime: { events } });
  const event = { runId: "r1", stream: "tool", data: { phase: "start", toolCallId: "c", name: "x" }, seq: 4, ts: 1 };
  for (const listener of listeners) listener(event);
  assert.deepEqual(types(run.events()), ["tool_call"]);
});

test("a registration whose api refuses everything leaves its trace and throws nothing", (t) => {
  const run = newRun(t);
  const refuse = new Proxy({}, { get() { throw new Error("not in this mode"); } });
  for (const api of [refuse, {}, null, undefined, { registrationMode: "setup", runtime: refuse }]) assert.equal(plugin.register(api), undefined);
  assert.deepEqual(run.lines().map((event) => event.payload.mode), ["unknown", "setup"]);
});

for (const [what, runId, hasFolder] of [
  ["without a run id", undefined, true],
  ["without a runs folder", "run_1", false],
  ["with a run id that climbs out of the folder", "../escape", true],
  ["with an absolute run id", "/escape", true],
  ["with a run id of dots", "..", true],
  ["with a run id of an odd separator", "a\\b", true],
]) {
  test(`${what} nothing happens`, (t) => {
    const parent = temporaryFolder(t);
    newRun(t);
    if (runId === undefined) delete process.env.CRITIQOR_RUN_ID;
    else process.env.CRITIQOR_RUN_ID = runId;
    if (hasFolder) process.env.CRITIQOR_RUNS_DIR = path.join(parent, "runs");
    else delete process.env.CRITIQOR_RUNS_DIR;
    const { handlers } = attach();
    assert.equal(handlers.size, 0);
    assert.equal(plugin.safeSubscribe({ on() {} }, "input", "extension_api"), false);
    plugin.updateSessionSummary();
    assert.deepEqual(fs.readdirSync(parent), []);
  });
}

test("recorder_attached says who is watching, with what", (t) => {
  const run = newRun(t);
  attach({ version: "2026.6.1" });
  const [{ payload, source_layer }] = run.lines();
  assert.equal(source_layer, "extension_api");
  assert.deepEqual(payload.sources, { hooks: true, agent_events: true, transcript: true });
  assert.deepEqual([payload.openclaw_version, payload.node_version, payload.pid], ["2026.6.1", process.version, process.pid]);
  assert.match(payload.plugin_version, /^\d+\.\d+\.\d+/);
  assert.equal(state().records.handlerErrors, 0);
});
