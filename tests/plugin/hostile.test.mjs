// Whatever an agent or a tool hands over, no handler throws, returns or waits, and the journal stays readable.

import assert from "node:assert/strict";
import { test } from "node:test";

import { attach, inProcess, newRun, plugin, sequences, state, stopClock } from "./support/harness.mjs";

const context = { runId: "r1", sessionKey: "s1" };

function cycle() {
  const value = { name: "ring" };
  value.self = value;
  return value;
}

function nested(levels) {
  let value = "deep";
  for (let level = 0; level < levels; level += 1) value = level % 2 ? [value] : { value };
  return value;
}

const throwing = () => {
  throw new Error("hostile");
};
const trap = new Proxy({}, { get: throwing, ownKeys: throwing, getPrototypeOf: throwing, has: throwing, getOwnPropertyDescriptor: throwing });
const revoked = Proxy.revocable({}, {});
revoked.revoke();

const VALUES = {
  "a cycle": cycle(),
  "a throwing getter": { fine: 1, get details() { return throwing(); } },
  "a proxy that throws at everything": trap,
  "a revoked proxy": revoked.proxy,
  "a BigInt": { count: 12345678901234567890n, small: -7n },
  "a huge BigInt": { count: 1n << 4_000_000n },
  "undefined": undefined,
  "null": null,
  "a function": () => 1,
  "a symbol": Symbol("s"),
  "100,000 levels of nesting": nested(100_000),
  "a toJSON that throws": { toJSON: throwing },
  "a toJSON that lies": { toJSON: () => undefined },
  "lone surrogates": { text: "\ud83d half \ude00", "\udc00key": "x" },
  "a text of 10 MB": "x".repeat(10_000_000),
  "a list of 100,000": Array.from({ length: 100_000 }, (_, index) => index),
  "30,000 fields": Object.fromEntries(Array.from({ length: 30_000 }, (_, index) => [`field ${index}`, index])),
  "an error with a throwing message": Object.defineProperty(new Error("x"), "message", { get: throwing }),
  "an invalid date": new Date(NaN),
  "numbers that JSON has not": { a: NaN, b: Infinity, c: -0 },
  "bytes": new Uint8Array(5000),
  "a Map": new Map([["a", 1]]),
  "a field called __proto__": JSON.parse('{"__proto__": {"polluted": "password=hunter2hunter2"}, "cycle": null}'),
  "a sparse list": [, 1, , 2], // eslint-disable-line no-sparse-arrays
  "no prototype": Object.assign(Object.create(null), { a: 1 }),
};

// What takes a while to make or to digest goes through the handlers that carry payloads, and only there.
const GIANTS = new Set(["100,000 levels of nesting", "a text of 10 MB", "a list of 100,000", "30,000 fields"]);
const CARRIERS = ["message_received", "after_tool_call", "tool_result"];

for (const [what, value] of Object.entries(VALUES)) {
  const streams = GIANTS.has(what) ? ["tool"] : ["lifecycle", "tool", "command_output", "usage", "assistant", "compaction", "run_status", value];
  test(`${what} in an event disturbs nobody`, (t) => {
    const tick = stopClock(t);
    const run = newRun(t);
    const claw = attach();
    const returned = [];
    for (const name of GIANTS.has(what) ? CARRIERS : claw.handlers.keys()) {
      returned.push(...claw.hook(name, value, context), ...claw.hook(name, value, value));
      returned.push(...claw.hook(name, { toolCallId: "c1", toolName: "exec", params: value, result: value, error: value, usage: value }, context));
      returned.push(...claw.hook(name, { toolCallId: value, toolName: value, runId: value, sessionKey: value, durationMs: value }, undefined));
    }
    returned.push(...claw.agent(value), ...claw.transcript(value));
    for (const stream of streams) {
      for (const phase of ["start", "model", "update", "result", "delta", "retrying", "end", "error"]) {
        const data = { phase, toolCallId: "c9", name: "exec", args: value, result: value, isError: value, error: value, text: value, outputTokens: value };
        returned.push(...claw.agent({ runId: "r2", sessionKey: "s2", stream, data }), ...claw.agent({ runId: "r2", stream, data: value }));
      }
    }
    for (const role of ["user", "assistant", value]) {
      returned.push(...claw.transcript({ sessionKey: "s1", messageId: value, message: { role, content: value, usage: value, stopReason: "error", errorMessage: value } }));
      returned.push(...claw.transcript({ sessionKey: "s1", message: { role, content: [value, { text: value }] } }));
    }
    tick(20_000);
    assert.deepEqual(returned.filter((result) => result !== undefined), []);
    assert.equal(state().records.waiting.size, 0);
    const lines = run.lines(); // every line is JSON
    assert.ok(lines.length > 5);
    assert.doesNotMatch(run.text(), /\\ud[89a-f]|hunter2hunter2/i);
    for (const event of lines) {
      for (const name of ["session_key", "agent_run_id", "tool_name", "tool_call_id", "error"]) {
        assert.ok(event[name] === null || typeof event[name] === "string", `${name} of ${event.event_type}`);
      }
      assert.ok(event.duration_ms === null || typeof event.duration_ms === "number");
      assert.equal(typeof event.payload, "object");
      assert.ok(JSON.stringify(event).length < 200_000);
    }
    plugin.updateSessionSummary();
    assert.equal(run.session().metrics.total_events, lines.length);
  });
}

test("a result that cannot be read still ends its call", (t) => {
  const run = newRun(t);
  const claw = attach();
  claw.hook("before_tool_call", { toolCallId: "c1", toolName: "exec", params: {} }, context);
  claw.hook("after_tool_call", { toolCallId: "c1", toolName: "exec", result: { get details() { return throwing(); } }, durationMs: 4 }, context);
  const [result] = run.of("tool_result");
  assert.deepEqual([result.duration_ms, result.payload.result], [4, { details: { cut: true, reason: "unreadable" } }]);
});

test("an error inside a timer does not reach the agent's process", async (t) => {
  const run = newRun(t);
  const script = `
    const claw = attach();
    const result = new Proxy({}, { get() { throw new Error("hostile"); }, ownKeys() { throw new Error("hostile"); } });
    claw.stream("tool", { phase: "start", toolCallId: "c1", name: "exec" });
    claw.stream("tool", { phase: "result", toolCallId: "c1", name: "exec", result });
    state().records.later(1, () => { throw new Error("hostile"); });
    setTimeout(() => {}, 600);`;
  const { child, ended } = inProcess(run, script);
  child.stdin.end();
  const { code, stderr } = await ended;
  assert.deepEqual([code, stderr], [0, ""]);
  assert.deepEqual(run.lines().map((event) => event.event_type), ["recorder_attached", "tool_call", "tool_result"]);
});

test("a fact that could not be made into a record leaves a hole in the numbering", (t) => {
  const run = newRun(t);
  const claw = attach();
  claw.hook("message_received", { content: "a" }, context);
  claw.hook("before_tool_call", null, context);
  claw.hook("message_received", { content: "b" }, context);
  assert.deepEqual(sequences(run.lines()), [1, 2, 4]);
  assert.equal(state().records.handlerErrors, 1);
});

test("a duration that cannot be costs no record and dates none", (t) => {
  stopClock(t);
  const run = newRun(t);
  const claw = attach();
  const impossible = ["soon", NaN, Infinity, -Infinity, 1e300, -1e300, -5, 5n, true, {}];
  for (const durationMs of impossible) {
    claw.hook("after_tool_call", { toolCallId: "c1", toolName: "exec", result: {}, durationMs }, context);
    claw.hook("model_call_ended", { provider: "p", model: "m", outcome: "completed", durationMs }, context);
    claw.hook("agent_end", { success: true, durationMs }, { runId: String(durationMs) });
  }
  for (const eventType of ["tool_call", "tool_result", "before_provider_request", "after_provider_response", "agent_end"]) {
    assert.equal(run.of(eventType).length, impossible.length, eventType);
  }
  assert.equal(state().records.handlerErrors, 0);
  assert.deepEqual(new Set(run.events().map((event) => event.timestamp)), new Set([new Date().toISOString()]));
});

test("a member called `at` of a documented event neither costs nor dates its record", (t) => {
  stopClock(t);
  const run = newRun(t);
  const claw = attach();
  for (const at of ["yesterday", 5, { hour: 3 }]) {
    claw.hook("before_provider_request", { model: "m", at }, context);
    claw.hook("after_provider_response", { model: "m", at, usage: {} }, context);
  }
  assert.deepEqual(run.of("before_provider_request").map((event) => event.payload.at), ["yesterday", 5, { hour: 3 }]);
  assert.equal(state().records.handlerErrors, 0);
  assert.deepEqual(new Set(run.events().map((event) => event.timestamp)), new Set([new Date().toISOString()]));
});
