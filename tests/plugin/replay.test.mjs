// What real OpenClaws emitted, replayed: each fact is recorded once, in order, and true.

import assert from "node:assert/strict";
import { test } from "node:test";

import { replay } from "./support/harness.mjs";

const USUAL = ["2026.9.6-local", "2026.9.6-chat", "2026.9.6-gateway", "2026.6.1-local", "2026.6.1-chat", "2026.6.1-gateway"];
const RETRIED = ["2026.9.6-local-retry", "2026.9.6-chat-retry"];
const NESTED = ["2026.9.6-local-nested", "2026.9.6-chat-nested"];

const of = (events, ...types) => events.filter((event) => types.includes(event.event_type));
const firstRun = (events) => events.filter((event) => event.agent_run_id === of(events, "agent_start")[0].agent_run_id);

/** Calls with their results, the nth call of an id with its nth result. */
function pairs(events) {
  const results = of(events, "tool_result");
  return of(events, "tool_call").map((call) => {
    const index = results.findIndex((result) => result.tool_call_id === call.tool_call_id);
    return { call, result: index < 0 ? null : results.splice(index, 1)[0] };
  });
}

/** How long each call took, as OpenClaw itself says, or by the clock where only its stream tells. */
function durations(rows) {
  const hooks = rows.filter((row) => row.name === "after_tool_call");
  if (hooks.length > 0) return hooks.map(({ event }) => [event.toolCallId, event.durationMs]);
  const started = new Map();
  const took = [];
  for (const { t, name, event } of rows) {
    if (name === "tool:start") started.set(event.data.toolCallId, t);
    if (name === "tool:result") took.push([event.data.toolCallId, t - started.get(event.data.toolCallId)]);
  }
  return took;
}

for (const name of [...USUAL, ...RETRIED, ...NESTED]) {
  test(`${name}: every call has one result, no duration before it and the right one at it`, (t) => {
    const { rows, events } = replay(t, name);
    assert.equal(of(events, "tool_call").length, rows.filter((row) => row.name === "tool:start").length);
    assert.equal(of(events, "tool_result").length, of(events, "tool_call").length);
    for (const { call, result } of pairs(events)) {
      assert.equal(call.duration_ms, null);
      assert.equal(call.status, "ok");
      assert.equal(result.tool_name, call.tool_name);
      assert.ok(result.event_id > call.event_id);
      assert.equal(call.source_layer, "tool_hooks");
    }
    const recorded = of(events, "tool_result").map((event) => [event.tool_call_id, event.duration_ms]);
    assert.deepEqual(recorded, durations(rows));
  });

  test(`${name}: the order of ids is the order of time`, (t) => {
    const { events } = replay(t, name);
    const times = events.map((event) => event.timestamp);
    assert.deepEqual(times, times.toSorted());
    assert.equal(new Set(events.map((event) => event.event_id)).size, events.length);
    for (const time of times) assert.match(time, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  });

  test(`${name}: one request and one response a model call, each inside its turn`, (t) => {
    const { rows, events } = replay(t, name);
    const calls = rows.filter(({ name: source, event }) => source === "model_call_started" || (source === "lifecycle:model" && event.data.model));
    const hooked = calls.filter(({ kind }) => kind === "hook");
    const expected = (hooked.length > 0 ? hooked : calls).length;
    const modelEvents = of(events, "turn_start", "before_provider_request", "after_provider_response", "turn_end");
    const round = ["turn_start", "before_provider_request", "after_provider_response", "turn_end"];
    assert.deepEqual(modelEvents.map((event) => event.event_type), Array(expected).fill(round).flat());
    let open = false;
    for (const event of events) {
      if (event.event_type === "turn_start") open = true;
      if (event.event_type.startsWith("tool_")) assert.ok(open, "a tool outside every turn");
      if (event.event_type === "turn_end") open = false;
    }
    for (const request of of(events, "before_provider_request")) {
      assert.equal(request.payload.provider, "lab");
      assert.equal(request.payload.model, "scripted");
    }
  });

  test(`${name}: usage and cost stand at the response whose message OpenClaw saved`, (t) => {
    const { rows, events } = replay(t, name);
    const saved = rows.filter((row) => row.kind === "transcript" && row.event.message?.role === "assistant");
    const responses = of(events, "after_provider_response");
    const known = responses.filter((event) => event.payload.usage !== null);
    assert.equal(known.length, saved.length);
    for (const [index, { payload }] of known.entries()) assert.deepEqual(payload.usage, saved[index].event.message.usage);
    assert.equal(typeof known[0].payload.usage.cost.total, "number");
  });

  test(`${name}: one recorder_attached a mode, as the first record`, (t) => {
    const { run, rows } = replay(t, name);
    const modes = new Set(rows.filter((row) => row.kind === "register").map((row) => row.name));
    const lines = run.lines();
    const attached = lines.filter((event) => event.event_type === "recorder_attached");
    assert.deepEqual(new Set(attached.map((event) => event.payload.mode)), modes);
    assert.equal(attached.length, modes.size);
    assert.equal(lines[0].event_type, "recorder_attached");
    assert.equal(lines[0].payload.sources.hooks, rows[1].name === "full");
  });

  test(`${name}: runs and sessions are named on all that belongs to them`, (t) => {
    const { events } = replay(t, name);
    for (const event of events) {
      if (event.event_type === "gateway_start") assert.equal(event.session_key, null);
      else assert.equal(event.session_key, "agent:main:main", event.event_type);
      if (!["gateway_start", "session_start"].includes(event.event_type)) assert.match(event.agent_run_id, /^[0-9a-f-]{36}$/);
    }
  });
}

for (const name of USUAL) {
  test(`${name}: status and error are what really happened`, (t) => {
    const { events } = replay(t, name);
    const results = of(firstRun(events), "tool_result").map((event) => [event.tool_name, event.tool_call_id, event.status]);
    assert.deepEqual(results, [
      ["exec", "call_0", "ok"],
      ["read", "call_0", "error"],
      ["exec", "call_2", "error"],
      ["frobnicate", "call_3", "error"],
    ]);
    const [hello, missing, exit, unknown] = of(events, "tool_result");
    assert.equal(hello.error, null);
    assert.equal(hello.payload.result.content[0].text, "hello");
    assert.equal(hello.payload.exit_code, 0);
    assert.match(missing.error, /not found|ENOENT/);
    assert.equal(exit.error, "exit code 3");
    assert.equal(exit.payload.exit_code, 3);
    assert.equal(unknown.error, "Tool frobnicate not found");
    assert.deepEqual(of(events, "tool_call")[0].payload.arguments, { command: "echo hello" });
  });

  test(`${name}: one run is one agent_start, one input and one agent_end`, (t) => {
    const run = firstRun(replay(t, name).events);
    assert.equal(of(run, "agent_start").length, 1);
    assert.match(of(run, "input").map((event) => event.payload.text).join("|"), /^[^|]*do the thing[^|]*$/);
    assert.deepEqual(of(run, "agent_end").map((event) => [event.status, event.error]), [["ok", null]]);
    assert.equal(run.at(-1).event_type, "agent_end");
    assert.deepEqual(of(run, "message_end").map((event) => event.payload.text), ["ok", "", "", "All done, everything went well."]);
  });
}

for (const name of USUAL.filter((each) => each !== "2026.9.6-chat")) {
  test(`${name}: the hooks' totals, prompt sizes and budgets are kept`, (t) => {
    const { events } = replay(t, name);
    const end = of(events, "agent_end")[0];
    assert.equal(end.payload.usage_total.total, 5100);
    if (name.startsWith("2026.9.6")) assert.equal(typeof end.payload.usage_total.cost.total, "number");
    const [first, second] = of(events, "before_provider_request");
    assert.equal(first.payload.contextTokenBudget, 128000);
    assert.equal(first.payload.system_prompt.size, 60);
    assert.equal(end.payload.harness, undefined, "it is OpenClaw's own");
    assert.equal(first.payload.tools.count, 8);
    assert.ok(first.payload.tools.names.includes("exec"));
    assert.equal(second.payload.system_prompt, undefined);
    assert.equal(typeof of(events, "after_provider_response")[0].payload.requestPayloadBytes, "number");
  });
}

test("2026.6.1-gateway: a request that found no server is an error, though OpenClaw calls it completed and the run a success", (t) => {
  const { rows, events } = replay(t, "2026.6.1-gateway");
  const heartbeat = events.filter((event) => event.agent_run_id === of(events, "agent_start")[1].agent_run_id);
  assert.equal(rows.findLast((row) => row.name === "model_call_ended").event.outcome, "completed");
  assert.equal(rows.findLast((row) => row.name === "agent_end").event.success, true);
  const [response] = of(heartbeat, "after_provider_response");
  assert.deepEqual([response.status, response.error, response.payload.outcome], ["error", "Connection error.", "error"]);
  assert.equal(of(heartbeat, "turn_end")[0].status, "error");
  assert.equal(of(heartbeat, "agent_end")[0].status, "error");
});

for (const name of RETRIED) {
  test(`${name}: each attempt has its own end, and a failed one is not believed`, (t) => {
    const { events } = replay(t, name);
    const responses = of(events, "after_provider_response");
    assert.deepEqual(responses.map((event) => event.status), ["error", "error", "ok", "error", "ok"]);
    assert.match(responses[0].error, /HTTP 500/);
    assert.match(responses[1].error, /rate limit/);
    assert.equal(responses[1].payload.failover_reason, "rate_limit");
    const ends = of(events, "agent_end");
    assert.deepEqual(ends.map((event) => [event.payload.attempt, event.status]), [[1, "error"], [2, "error"], [3, "error"], [4, "ok"]]);
    assert.match(ends[0].error, /HTTP 500/);
    assert.equal(of(events, "agent_start").length, 4);
    assert.equal(of(events, "provider_retry").length, 3);
    const attempts = of(events, "agent_start", "agent_end").map((event) => event.event_type);
    assert.deepEqual(attempts, Array(4).fill(["agent_start", "agent_end"]).flat());
  });
}

for (const name of NESTED) {
  test(`${name}: a memory lookup is recorded a second time, with its query and how it ended`, (t) => {
    const { events } = replay(t, name);
    const memory = of(events, "memory_search", "memory_get").map(({ tool_call_id, status, payload }) => {
      const { observed_as, query, key, lookup } = payload;
      return [tool_call_id, status, observed_as, query ?? key, lookup];
    });
    const nested = "tool_search_code:call_1:memory_search:1";
    assert.deepEqual(memory, [
      [nested, "ok", "tool_call", "the plan", "pending"],
      [nested, "ok", "tool_result", "the plan", "empty"],
      ["call_1", "ok", "tool_call", "MEMORY.md", "pending"],
      ["call_1", "error", "tool_result", "MEMORY.md", "error"],
    ]);
  });

  test(`${name}: parallel and nested calls keep their own results`, (t) => {
    const { events } = replay(t, name);
    const texts = pairs(events).map(({ call, result }) => [call.tool_name, call.tool_call_id, result.status]);
    assert.deepEqual(texts, [
      ["tool_call", "call_1", "ok"],
      ["exec", "call_2", "ok"],
      ["exec", "call_3", "ok"],
      ["memory_search", "tool_search_code:call_1:memory_search:1", "ok"],
      ["memory_get", "call_1", "error"],
      ["read", "call_9", "error"],
    ]);
    const [, slow, fast, inner] = pairs(events);
    assert.equal(slow.result.payload.result.content[0].text, "A");
    assert.equal(fast.result.payload.result.content[0].text, "B");
    assert.equal(inner.call.payload.parent_tool_call_id, "call_1");
    assert.match(pairs(events)[5].result.error, /Validation failed for tool "read"/);
  });
}

test("2026.9.6-codex: native commands have their output, which only the saved messages have, and their exit code", (t) => {
  const { events } = replay(t, "2026.9.6-codex");
  const [worked, failed] = pairs(events);
  assert.deepEqual([worked.call.tool_name, worked.call.payload.arguments.command], ["bash", "echo hello"]);
  assert.equal(worked.result.payload.result.content[0].text, "hello");
  assert.deepEqual([failed.result.status, failed.result.error, failed.result.payload.exit_code], ["error", "exit code 3", 3]);
  assert.equal(failed.result.payload.result.content[0].text, "bad");
});

test("2026.9.6-codex: the harness that makes its model calls itself is named", (t) => {
  const { events } = replay(t, "2026.9.6-codex");
  const [end] = of(events, "agent_end");
  assert.deepEqual([end.payload.harness, end.payload.provider], ["codex", "openai"]);
  const [response] = of(events, "after_provider_response");
  assert.equal(response.payload.usage, null);
});

/** A record without its id and its times. */
function timeless({ event_id: _, timestamp, duration_ms, ...rest }) {
  return rest;
}

for (const name of [...USUAL, ...RETRIED, ...NESTED, "2026.9.6-codex"]) {
  test(`${name}: a machine that is fifty times as slow records the same`, (t) => {
    const { events } = replay(t, name);
    const slow = replay(t, name, { slowness: 50 });
    assert.deepEqual(slow.events.map(timeless), events.map(timeless));
  });
}
