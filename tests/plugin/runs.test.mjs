// Many runs in one process: kept apart, recorded once, and forgotten in time.

import assert from "node:assert/strict";
import { test } from "node:test";
import { queryObjects } from "node:v8";

import { attach, newRun, PLUGIN, plugin, state, stopClock } from "./support/harness.mjs";

const { ToolCall } = await import(new URL("tools.js", PLUGIN));

const of = (runId, sessionKey = `session of ${runId}`) => ({ runId, sessionKey });
const types = (events) => events.map((event) => event.event_type);
const model = { provider: "p", model: "m" };

function wholeRun(claw, context, calls = ["c1"]) {
  claw.hook("before_agent_run", {}, context);
  claw.hook("model_call_started", { ...context, ...model }, context);
  claw.hook("model_call_ended", { ...context, ...model, outcome: "completed", durationMs: 2 }, context);
  for (const toolCallId of calls) {
    claw.hook("before_tool_call", { ...context, toolCallId, toolName: "read", params: { path: "a" } }, context);
    claw.hook("after_tool_call", { ...context, toolCallId, toolName: "read", params: {}, result: { content: [] }, durationMs: 3 }, context);
  }
  claw.hook("agent_end", { success: true, messages: [] }, context);
  claw.hook("llm_output", { ...context, usage: { total: 1 } }, context);
}

test("two interleaved runs of two sessions, with the same call ids, are kept apart", (t) => {
  const tick = stopClock(t);
  const run = newRun(t);
  const claw = attach();
  const [a, b] = [of("a"), of("b")];
  for (const each of [a, b]) claw.hook("before_agent_run", {}, each);
  for (const each of [a, b]) claw.hook("model_call_started", { ...each, ...model }, each);
  for (const each of [a, b]) claw.hook("model_call_ended", { ...each, ...model, outcome: each === a ? "error" : "completed" }, each);
  for (const each of [a, b]) claw.transcript({ sessionKey: each.sessionKey, messageId: each.runId, message: { role: "assistant", content: each.runId, usage: { output: each === a ? 1 : 2 } } });
  for (const each of [a, b]) claw.hook("before_tool_call", { ...each, toolCallId: "call_0", toolName: "read", params: { path: each.runId } }, each);
  tick(7);
  claw.hook("after_tool_call", { ...b, toolCallId: "call_0", toolName: "read", error: "no" }, b);
  tick(7);
  claw.hook("after_tool_call", { ...a, toolCallId: "call_0", toolName: "read", result: {} }, a);
  for (const each of [a, b]) claw.hook("agent_end", { success: true }, each);
  tick(1000);
  const events = run.events();
  for (const each of [a, b]) {
    const own = events.filter((event) => event.agent_run_id === each.runId);
    const expected = ["agent_start", "turn_start", "before_provider_request", "after_provider_response", "message_end", "tool_call", "tool_result", "turn_end", "agent_end"];
    assert.deepEqual(types(own), expected);
    assert.ok(own.every((event) => event.session_key === each.sessionKey));
    assert.equal(own[3].payload.usage.output, each === a ? 1 : 2);
    assert.equal(own[5].payload.arguments.path, each.runId);
    assert.deepEqual([own[6].status, own[6].duration_ms], each === a ? ["ok", 14] : ["error", 7]);
    assert.equal(own[8].status, each === a ? "error" : "ok");
  }
});

test("what belongs to no run keeps its own session", (t) => {
  const run = newRun(t);
  const claw = attach();
  claw.hook("session_start", { sessionKey: "s1" });
  claw.hook("gateway_start", { port: 1 }, {});
  claw.hook("session_start", { sessionKey: "s2" });
  claw.transcript({ sessionKey: "s3", messageId: "m", message: { role: "user", content: "hello" } });
  claw.hook("gateway_stop", { reason: "x" }, {});
  const recorded = run.events().map((event) => [event.event_type, event.session_key, event.agent_run_id]);
  assert.deepEqual(recorded, [["session_start", "s1", null], ["gateway_start", null, null], ["session_start", "s2", null], ["input", "s3", null], ["gateway_stop", null, null]]);
});

test("a late word of an earlier run does not take a session away from its current one", (t) => {
  stopClock(t);
  const run = newRun(t);
  const claw = attach({ mode: "discovery" });
  const start = (runId) => claw.stream("lifecycle", { phase: "start" }, { runId, sessionKey: "s1" });
  start("old");
  claw.stream("lifecycle", { phase: "finishing" }, { runId: "old", sessionKey: "s1" });
  start("new");
  claw.stream("lifecycle", { phase: "end" }, { runId: "old", sessionKey: "s1" });
  claw.transcript({ sessionKey: "s1", messageId: "m", message: { role: "user", content: "hello" } });
  assert.equal(run.of("input")[0].agent_run_id, "new");
});

test("a subagent has its own run and session, and does not take over its parent's", (t) => {
  stopClock(t);
  const run = newRun(t);
  const claw = attach();
  const parent = of("parent", "agent:main:main");
  const child = of("child", "agent:main:subagent:1");
  claw.hook("before_agent_run", {}, parent);
  const requester = { runId: "child", sessionKey: parent.sessionKey, requesterSessionKey: parent.sessionKey };
  claw.hook("subagent_spawned", { runId: "child", childSessionKey: child.sessionKey, agentId: "main" }, requester);
  wholeRun(claw, child);
  claw.hook("subagent_ended", { runId: "child", targetSessionKey: child.sessionKey, outcome: "timeout" }, requester);
  claw.transcript({ sessionKey: parent.sessionKey, messageId: "m", message: { role: "assistant", content: "done" } });
  const events = run.events();
  const spawned = events.filter((event) => event.event_type.startsWith("subagent_"));
  assert.deepEqual(spawned.map((event) => [event.agent_run_id, event.session_key, event.status]), [["child", child.sessionKey, "ok"], ["child", child.sessionKey, "error"]]);
  assert.equal(spawned[1].error, "ended with timeout");
  assert.equal(run.of("message_end")[0].agent_run_id, "parent");
});

test("hooks are live, but a harness tells only by streams: results are written, inside their turn", (t) => {
  const tick = stopClock(t);
  const run = newRun(t);
  const claw = attach();
  claw.stream("lifecycle", { phase: "start" });
  for (const id of ["call_0", "call_0"]) {
    claw.stream("lifecycle", { phase: "model", ...model });
    tick(5);
    claw.stream("usage", { outputTokens: 20 });
    claw.stream("tool", { phase: "start", toolCallId: id, name: "exec", args: {} });
    tick(30);
    claw.stream("tool", { phase: "result", toolCallId: id, name: "exec", result: { details: { exitCode: 2 } }, isError: false });
    tick(10); // the next request comes before any wait is over
  }
  claw.stream("lifecycle", { phase: "end" });
  tick(2000);
  const turn = ["turn_start", "before_provider_request", "after_provider_response", "tool_call", "tool_result", "turn_end"];
  assert.deepEqual(types(run.events()), ["agent_start", ...turn, ...turn, "agent_end"]);
  assert.deepEqual(run.of("tool_result").map((event) => [event.error, event.duration_ms]), [["exit code 2", 30], ["exit code 2", 30]]);
  assert.deepEqual(run.of("turn_end").map((event) => event.duration_ms), [35, 35]);
});

test("hooks without streams tell it all", (t) => {
  stopClock(t);
  const run = newRun(t);
  wholeRun(attach(), of("a"), ["call_0", "call_0"]);
  const tools = ["tool_call", "tool_result"];
  assert.deepEqual(types(run.events()), ["agent_start", "turn_start", "before_provider_request", "after_provider_response", ...tools, ...tools, "turn_end", "agent_end"]);
  assert.deepEqual(run.of("agent_end")[0].payload.usage_total, { total: 1 });
});

test("a result without its call gets its pair, with the call at its beginning", (t) => {
  const tick = stopClock(t);
  const run = newRun(t);
  const claw = attach();
  tick(100);
  claw.hook("after_tool_call", { runId: "a", toolCallId: "c", toolName: "nope", params: { x: 1 }, error: "Tool nope not found", durationMs: 40 });
  const [call, result] = run.events();
  assert.deepEqual([call.event_type, call.duration_ms, call.payload.arguments], ["tool_call", null, { x: 1 }]);
  assert.equal(Date.parse(result.timestamp) - Date.parse(call.timestamp), 40);
  assert.deepEqual([result.status, result.duration_ms], ["error", 40]);
});

test("an attempt that begins before the last one was written up ends it, and nothing of its own", (t) => {
  const tick = stopClock(t);
  const run = newRun(t);
  const claw = attach();
  const context = of("a");
  claw.hook("before_agent_run", {}, context);
  claw.hook("model_call_started", model, context);
  claw.hook("model_call_ended", { ...model, outcome: "error", errorCategory: "server" }, context);
  claw.hook("agent_end", { success: true }, context);
  tick(10);
  claw.hook("before_agent_run", {}, context);
  claw.hook("model_call_started", model, context);
  tick(2000); // the first attempt's wait is over by now
  claw.hook("model_call_ended", { ...model, outcome: "completed" }, context);
  claw.hook("agent_end", { success: true }, context);
  const attempt = ["agent_start", "turn_start", "before_provider_request", "after_provider_response", "turn_end", "agent_end"];
  assert.deepEqual(types(run.events()), [...attempt, ...attempt]);
  assert.deepEqual(run.of("after_provider_response").map((event) => [event.status, event.error]), [["error", "server"], ["ok", null]]);
  assert.deepEqual(run.of("agent_end").map((event) => event.status), ["error", "ok"]);
});

test("an agent that is asked to go on after its end has one end, the last", (t) => {
  const tick = stopClock(t);
  const run = newRun(t);
  const claw = attach();
  const context = of("a");
  claw.hook("before_agent_run", {}, context);
  for (const pause of [100, 5000]) {
    claw.hook("model_call_started", model, context);
    claw.hook("model_call_ended", { ...model, outcome: "completed" }, context);
    claw.stream("lifecycle", { phase: "finishing" }, context);
    tick(pause);
  }
  assert.equal(run.of("turn_end").length, 2);
  assert.equal(run.events().at(-1).event_type, "agent_end");
  assert.equal(run.of("agent_end").length, 1);
});

test("an agent_end without a beginning does not believe a success after a failed request", (t) => {
  stopClock(t);
  const run = newRun(t);
  const claw = attach();
  claw.hook("model_call_started", model, of("a"));
  claw.hook("model_call_ended", { ...model, outcome: "error", errorCategory: "rate_limit" }, of("a"));
  claw.hook("agent_end", { success: true }, of("a"));
  assert.deepEqual(run.of("agent_end").map((event) => [event.status, event.error]), [["error", "rate_limit"]]);
});

test("a request without an answer is closed as unobserved when the next begins", (t) => {
  const run = newRun(t);
  const claw = attach();
  for (const _ of [1, 2]) claw.hook("model_call_started", model, of("a"));
  assert.deepEqual(types(run.events()), ["turn_start", "before_provider_request", "after_provider_response", "turn_end", "turn_start", "before_provider_request"]);
  assert.equal(run.of("after_provider_response")[0].payload.outcome, "unobserved");
});

test("a model call that first the stream and then a hook reports is one call", (t) => {
  stopClock(t);
  const run = newRun(t);
  const claw = attach();
  claw.stream("lifecycle", { phase: "model", ...model });
  claw.hook("model_call_started", model, of("r1", "s1"));
  claw.hook("model_call_ended", { ...model, outcome: "completed" }, of("r1", "s1"));
  assert.equal(run.of("before_provider_request").length, 1);
  assert.equal(run.of("after_provider_response").length, 1);
});

test("a token count of the stream that comes before the end of its model call belongs to it", (t) => {
  stopClock(t);
  const run = newRun(t);
  const claw = attach();
  claw.hook("model_call_started", model, of("r1", "s1"));
  claw.stream("usage", { outputTokens: 20 });
  claw.hook("model_call_ended", { ...model, outcome: "completed" }, of("r1", "s1"));
  claw.transcript({ runId: "r1", sessionKey: "s1", messageId: "m1", message: { role: "assistant", content: "Hi.", usage: { output: 20 } } });
  assert.deepEqual(run.of("after_provider_response").map(({ payload }) => [payload.outputTokens, payload.usage]), [[20, { output: 20 }]]);
});

test("the last event of the stream ends an attempt whose totals never come", (t) => {
  stopClock(t);
  const run = newRun(t);
  const claw = attach();
  claw.hook("before_agent_run", {}, of("r1", "s1"));
  claw.stream("lifecycle", { phase: "finishing" });
  claw.hook("agent_end", { success: true }, of("r1", "s1"));
  const isWritten = () => run.lines().some((record) => record.event_type === "agent_end");
  assert.equal(isWritten(), false);
  claw.stream("lifecycle", { phase: "end" });
  assert.equal(isWritten(), true);
});

test("a result without output is written when the output is saved", (t) => {
  stopClock(t);
  const run = newRun(t);
  const claw = attach();
  claw.stream("tool", { phase: "start", toolCallId: "c1", name: "bash", args: { command: "ls" } });
  claw.stream("tool", { phase: "result", toolCallId: "c1", name: "bash", result: { status: "completed", exitCode: 0 } });
  claw.transcript({ runId: "r1", sessionKey: "s1", messageId: "m1", message: { role: "toolResult", toolCallId: "c1", content: "a.txt" } });
  const [result] = run.lines().filter((record) => record.event_type === "tool_result");
  assert.equal(result.payload.result.content[0].text, "a.txt");
});

test("memory that is switched off is a lookup that failed, one that finds something found it", (t) => {
  const run = newRun(t);
  const claw = attach();
  const lookUp = (toolName, params, result) => claw.hook("after_tool_call", { toolCallId: "m", toolName, params, result, durationMs: 1 }, of("a"));
  lookUp("memory_search", { query: "plan" }, { details: { results: [{ path: "a" }] } });
  lookUp("memory_search", { query: "plan" }, { details: { results: [], disabled: true, error: "no embeddings" } });
  lookUp("memory_get", { path: "MEMORY.md" }, { details: { text: "" } });
  lookUp("memory_get", { path: "MEMORY.md" }, { details: { text: "notes" } });
  const results = run.events().filter((event) => event.payload.observed_as === "tool_result");
  assert.deepEqual(results.map((event) => [event.event_type, event.payload.query ?? event.payload.key, event.payload.lookup]), [
    ["memory_search", "plan", "found"],
    ["memory_search", "plan", "error"],
    ["memory_get", "MEMORY.md", "empty"],
    ["memory_get", "MEMORY.md", "found"],
  ]);
});

test("a memory lookup is the same record once more, with what was looked up", (t) => {
  stopClock(t);
  const run = newRun(t);
  const claw = attach();
  const call = { toolCallId: "m", toolName: "memory_search", params: { query: "plan" } };
  const result = { content: [{ type: "text", text: "notes" }], details: { results: [{ path: "a" }] } };
  claw.hook("before_tool_call", call, of("a"));
  claw.hook("after_tool_call", { ...call, result, durationMs: 3 }, of("a"));
  const [called, pending, ended, found] = run.events();
  for (const [record, again, lookup] of [[called, pending, "pending"], [ended, found, "found"]]) {
    const { event_id, raw_event_type } = again;
    const payload = { ...record.payload, observed_as: record.event_type, query: "plan", key: null, lookup };
    assert.deepEqual(again, { ...record, event_id, raw_event_type, event_type: "memory_search", payload });
  }
  assert.deepEqual(found.payload.result, result);
});

test("a gateway that serves thousands of runs remembers few of them", (t) => {
  const tick = stopClock(t);
  newRun(t);
  const claw = attach();
  for (let index = 0; index < 3000; index += 1) wholeRun(claw, of(`run ${index}`));
  for (let index = 0; index < 3000; index += 1) claw.hook("message_received", { sessionKey: `quiet ${index}` });
  tick(2000);
  const { router, records } = state();
  assert.ok(router.runs.byKey.size <= 256);
  assert.ok(router.runs.idBySession.size <= 256);
  assert.equal(records.waiting.size, 0);
  assert.equal(plugin.START_TIME_BY_TOOL_CALL.size, 0);
  assert.equal(records.handlerErrors, 0);
});

test("a run that is under way is not forgotten, however many begin and end beside it", (t) => {
  stopClock(t);
  const run = newRun(t);
  const claw = attach();
  claw.hook("before_agent_run", {}, of("long"));
  claw.hook("before_tool_call", { toolCallId: "c", toolName: "exec", params: {} }, of("long"));
  for (let index = 0; index < 600; index += 1) wholeRun(claw, of(`short ${index}`), []);
  claw.hook("after_tool_call", { toolCallId: "c", toolName: "exec", result: {}, durationMs: 9 }, of("long"));
  const own = run.events().filter((event) => event.agent_run_id === "long");
  assert.deepEqual(types(own), ["agent_start", "tool_call", "tool_result"]);
});

test("a long run does not hold on to arguments, results, ids and messages", (t) => {
  stopClock(t);
  const run = newRun(t);
  const claw = attach();
  const context = of("a");
  class Arguments {}
  class Result {}
  class MessageId {}
  const earlier = queryObjects(ToolCall);
  for (let index = 0; index < 5000; index += 1) {
    for (const toolCallId of ["call_0", `call ${index}`]) {
      claw.hook("before_tool_call", { toolCallId, toolName: "exec", params: new Arguments() }, context);
      claw.stream("tool", { phase: "start", toolCallId, name: "exec", args: new Arguments() }, context);
      claw.stream("tool", { phase: "result", toolCallId, name: "exec", result: new Result() }, context);
      claw.hook("after_tool_call", { toolCallId, toolName: "exec", result: new Result(), durationMs: 1 }, context);
    }
    claw.transcript({ sessionKey: context.sessionKey, messageId: new MessageId(), message: { role: "custom", content: "" } });
  }
  assert.deepEqual([queryObjects(Arguments), queryObjects(Result)], [0, 0]);
  assert.equal(queryObjects(MessageId), 500);
  const calls = queryObjects(ToolCall) - earlier;
  assert.ok(calls > 0 && calls <= 2100, `${calls} calls are kept`);
  assert.equal(run.of("tool_call").length, 10_000);
  assert.equal(run.of("tool_result").length, 10_000);
});

test("calls that never end are remembered only up to a limit", (t) => {
  newRun(t);
  const claw = attach();
  const earlier = queryObjects(ToolCall);
  for (let index = 0; index < 12_000; index += 1) claw.hook("before_tool_call", { toolCallId: `c${index}`, toolName: "exec" }, of("a"));
  assert.ok(plugin.START_TIME_BY_TOOL_CALL.size <= 10_000);
  const calls = queryObjects(ToolCall) - earlier;
  assert.ok(calls > 0 && calls <= 2000, `${calls} calls are kept`);
  plugin.START_TIME_BY_TOOL_CALL.clear();
});

test("usage that no saved message contains is recovered from the history at the end of the run", (t) => {
  const tick = stopClock(t);
  const run = newRun(t);
  const claw = attach();
  const context = of("a");
  claw.hook("before_agent_run", {}, context);
  claw.hook("model_call_started", { ...context, ...model }, context);
  const timestamp = Date.now() + 1;
  tick(20);
  claw.hook("model_call_ended", { ...context, ...model, outcome: "completed" }, context);
  claw.stream("tool", { phase: "start", name: "frobnicate", toolCallId: "c1", args: {} }, context);
  const earlier = { role: "assistant", timestamp: timestamp - 5000, usage: { input: 7 } };
  claw.hook("agent_end", { success: true, messages: [earlier, { role: "assistant", timestamp, usage: { input: 5 } }] }, context);
  tick(1000);
  assert.equal(run.of("after_provider_response")[0].payload.usage, null);
  assert.deepEqual(run.of("agent_end")[0].payload.recovered_usage, [{ turn: 1, usage: { input: 5 } }]);
});

test("words that were saved are not recorded again when a later model call fails", (t) => {
  const tick = stopClock(t);
  const run = newRun(t);
  const claw = attach();
  const a = of("a");
  const said = (text) => claw.agent({ ...a, stream: "assistant", data: { text, delta: text } });
  claw.hook("before_agent_run", {}, a);
  claw.hook("model_call_started", { ...a, ...model }, a);
  said("I look.");
  claw.hook("model_call_ended", { ...a, ...model, outcome: "completed" }, a);
  claw.transcript({ ...a, messageId: "m1", message: { role: "assistant", content: "I look.", usage: { output: 1 } } });
  claw.hook("model_call_started", { ...a, ...model }, a);
  claw.hook("model_call_ended", { ...a, ...model, outcome: "error", errorCategory: "server" }, a);
  claw.hook("agent_end", { success: true }, a);
  tick(1000);
  const words = run.events().filter((event) => event.event_type === "message_end");
  assert.deepEqual(words.map((event) => event.payload.text), ["I look."]);
});

for (const order of ["before", "after"]) {
  test(`a tool of a CLI backend about which the hooks are asked twice is one call, ${order} the stream names it`, (t) => {
    const run = newRun(t);
    const claw = attach();
    const context = of("a");
    const call = { ...context, toolCallId: "toolu_1", toolName: "exec", params: { command: "ls" } };
    const stream = () => claw.agent({ ...context, stream: "tool", data: { phase: "start", name: "Bash", toolCallId: "toolu_1", args: { command: "ls", timeout: 5 } } });
    if (order === "after") stream();
    for (const each of [call, { ...call, params: { command: "ls" } }]) claw.hook("before_tool_call", each, context);
    if (order === "before") stream();
    claw.hook("after_tool_call", { ...call, result: "a", durationMs: 2 }, context);
    assert.deepEqual(types(run.events()), ["tool_call", "tool_result"]);
    // The same id again, after its end or with other arguments, is another call.
    claw.hook("before_tool_call", call, context);
    claw.hook("before_tool_call", { ...call, params: { command: "pwd" } }, context);
    assert.equal(run.of("tool_call").length, 3);
  });
}

test("the request and the answer of a CLI backend come from its history, if no other source has them", (t) => {
  const tick = stopClock(t);
  const run = newRun(t);
  const claw = attach();
  const context = of("a");
  const messages = [{ role: "user", content: "old" }, { role: "assistant", content: "old" }, { role: "user", content: "do it" }, { role: "assistant", content: [{ type: "text", text: "Done." }], stopReason: "stop" }];
  claw.hook("before_agent_run", {}, context);
  claw.hook("agent_end", { success: true, messages }, context);
  claw.hook("llm_output", { ...context, provider: "claude-cli", model: "m", usage: { input: 1 } }, context);
  tick(1000);
  assert.deepEqual(types(run.events()), ["agent_start", "input", "message_end", "agent_end"]);
  assert.deepEqual(run.events().slice(1, 3).map((event) => event.payload.text), ["do it", "Done."]);
});

test("the history is not recorded again where messages were saved or model calls were visible", (t) => {
  const tick = stopClock(t);
  const run = newRun(t);
  const claw = attach();
  const messages = [{ role: "user", content: "do it" }, { role: "assistant", content: "Done." }];
  const [a, b] = [of("a"), of("b")];
  claw.hook("before_agent_run", {}, a);
  claw.transcript({ sessionKey: a.sessionKey, messageId: "1", message: messages[0] });
  claw.transcript({ sessionKey: a.sessionKey, messageId: "2", message: messages[1] });
  claw.hook("agent_end", { success: true, messages }, a);
  tick(1000);
  assert.deepEqual(types(run.events()), ["agent_start", "input", "message_end", "agent_end"]);
  claw.hook("before_agent_run", {}, b);
  claw.hook("model_call_started", { ...b, ...model }, b);
  claw.hook("agent_end", { success: true, messages }, b);
  tick(1000);
  assert.equal(run.of("message_end").length, 1);
});
