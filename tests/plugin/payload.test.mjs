// Payloads are bounded: what is large becomes its size, its digest and an excerpt.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";

import { attach, newRun, PLUGIN } from "./support/harness.mjs";

const { LIMITS, serializeRecord } = await import(new URL("payload.js", PLUGIN));
const { Redactor } = await import(new URL("redact.js", PLUGIN));
const redactor = new Redactor(Buffer.from("key"));
const bounded = (payload) => JSON.parse(serializeRecord({ status: "ok", error: null, payload }, redactor)).payload;
const sha256 = (text) => `sha256:${createHash("sha256").update(text).digest("hex").slice(0, 32)}`;
const big = (name = "filler") => ({ [name]: "word ".repeat(8000) });

test("a long text becomes its size, its digest and an excerpt", () => {
  const text = "grün ".repeat(10_000);
  const { text: cut } = bounded({ text });
  assert.deepEqual(cut, { cut: true, size: 60_000, digest: sha256(text), excerpt: text.slice(0, LIMITS.excerpt) });
});

test("equal long texts have equal digests, others have not", () => {
  const digest = (text) => bounded({ text }).text.digest;
  assert.equal(digest("a ".repeat(30_000)), digest("a ".repeat(30_000)));
  assert.notEqual(digest("a ".repeat(30_000)), digest(`${"a ".repeat(30_000)}b`));
});

for (const shift of [0, 1]) {
  test(`an excerpt never ends in half of a character (shifted by ${shift})`, () => {
    const text = "x".repeat(shift) + "😀".repeat(20_000);
    const { excerpt } = bounded({ text }).text;
    assert.ok(excerpt.isWellFormed());
    assert.ok(text.startsWith(excerpt));
    assert.ok(excerpt.length >= LIMITS.excerpt - 1);
  });

  test(`nor does the shorter one of a record that has no room left (shifted by ${shift})`, () => {
    const { last } = bounded({ a: "a".repeat(8000), b: "b".repeat(8000), c: "c".repeat(8000), d: "d".repeat(8000), last: "x".repeat(shift) + "😀".repeat(900) });
    assert.ok(last.cut);
    assert.doesNotMatch(last.excerpt, /\ufffd/);
    assert.ok(last.excerpt.isWellFormed());
  });

  test(`nor does a long error, which stays a text (shifted by ${shift})`, (t) => {
    const run = newRun(t);
    const error = "x".repeat(shift) + "😀".repeat(30_000);
    attach().hook("after_tool_call", { toolCallId: "c", toolName: "exec", error }, { runId: "r1" });
    const [result] = run.of("tool_result");
    assert.equal(typeof result.error, "string");
    assert.ok(error.startsWith(result.error));
    assert.ok(result.error.length <= LIMITS.excerpt);
  });
}

test("a text of exactly the limit is kept whole in a record that is cut elsewhere", () => {
  const text = "x".repeat(LIMITS.text);
  assert.equal(bounded({ text, ...big() }).text, text);
  assert.equal(bounded({ text: `${text}x`, ...big() }).text.cut, true);
});

test("small things beside a large one are kept", () => {
  const kept = bounded({ result: { content: [{ type: "text", text: "x".repeat(500_000) }], details: { exitCode: 3, status: "failed" } }, source: "s", exit_code: 3 });
  assert.deepEqual([kept.result.details, kept.source, kept.exit_code], [{ exitCode: 3, status: "failed" }, "s", 3]);
  assert.equal(kept.result.content[0].text.size, 500_000);
});

test("long lists and wide objects say how long they were", () => {
  const { list, object } = bounded({ list: Array.from({ length: 5000 }, () => "item"), object: Object.fromEntries(Array.from({ length: 900 }, (_, index) => [`k${index}`, 1])), ...big() });
  assert.equal(list.length, LIMITS.items + 1);
  assert.deepEqual(list.at(-1), { cut: true, reason: "items", size: 5000 });
  assert.deepEqual(object["…"], { cut: true, reason: "items", size: 900 });
});

for (const [what, payload] of Object.entries({
  "many middling texts": Array.from({ length: 200 }, () => Array.from({ length: 200 }, () => Array.from({ length: 20 }, () => "a text of some length ".repeat(6)))),
  "many small values": Array.from({ length: 200 }, () => Array.from({ length: 200 }, () => Array.from({ length: 200 }, () => 1))),
  "many long names": Array.from({ length: 200 }, () => Object.fromEntries(Array.from({ length: 200 }, (_, index) => [`${index}${"k".repeat(5000)}`, null]))),
  "many large texts": Array.from({ length: 200 }, () => "x".repeat(100_000)),
})) {
  test(`a record of ${what} stays small`, () => {
    const line = serializeRecord({ status: "ok", error: null, payload: { payload } }, redactor);
    assert.ok(line.length < 4 * LIMITS.record, `${line.length} characters`);
  });
}

test("a deep value, a cycle and a field called __proto__ are cut or kept, and say so", () => {
  const ring = {};
  ring.ring = ring;
  let deep = {};
  for (let level = 0; level < 40; level += 1) deep = { deep };
  const kept = bounded({ ring, deep, odd: JSON.parse('{"__proto__": {"a": 1}}'), twice: [ring, ring] });
  assert.deepEqual(kept.ring, { ring: { cut: true, reason: "cycle" } });
  assert.match(JSON.stringify(kept.deep), /\{"cut":true,"reason":"depth"\}/);
  assert.deepEqual(Object.entries(kept.odd), [["__proto__", { a: 1 }]]);
  assert.equal(kept.twice.length, 2);
});

test("names and ids of the envelope stay texts, however long", (t) => {
  const run = newRun(t);
  const long = "n".repeat(100_000);
  attach().hook("before_tool_call", { toolCallId: long, toolName: long, params: {} }, { runId: long, sessionKey: long });
  const [call] = run.events();
  for (const name of ["tool_call_id", "tool_name", "agent_run_id", "session_key"]) assert.ok(call[name].length <= LIMITS.excerpt, name);
});

test("the names of the tools behind OpenClaw's tool search are kept, without their descriptions", (t) => {
  const run = newRun(t);
  const claw = attach();
  const context = { runId: "r1", sessionKey: "s1" };
  const directory = ["Available deferred-schema tools:", "- cron (core): Plans work.", "- memory_get (memory-core): Reads.", "", "- not one"];
  const tools = Array.from({ length: 300 }, (_, number) => ({ name: `tool_${number}` }));
  claw.hook("llm_input", { systemPrompt: `You are\n${directory.join("\n")}`, tools }, context);
  claw.hook("model_call_started", { provider: "p", model: "m" }, context);
  const { tools: recorded } = run.of("before_provider_request")[0].payload;
  assert.deepEqual(recorded.deferred, ["cron", "memory_get"]);
  assert.deepEqual([recorded.count, recorded.names.length], [300, 150]);
  assert.doesNotMatch(run.text(), /Plans work/);
});

test("the system prompt and the tools of a request are digested, not copied", (t) => {
  const run = newRun(t);
  const claw = attach();
  const context = { runId: "r1", sessionKey: "s1" };
  claw.hook("llm_input", { systemPrompt: "You are".repeat(9000), tools: [{ name: "exec", description: "runs" }], historyMessages: [{}, {}] }, context);
  claw.hook("model_call_started", { provider: "p", model: "m" }, context);
  const [request] = run.of("before_provider_request");
  assert.equal(request.payload.system_prompt.size, 63_000);
  assert.deepEqual([request.payload.tools.count, request.payload.history_messages], [1, 2]);
  assert.deepEqual([request.payload.tools.names, request.payload.tools.deferred], [["exec"], undefined]);
  assert.doesNotMatch(run.text(), /You are/);
});
