// What the model was sent: recorded only if the user asks for it, each distinct text once, redacted and bounded.

import assert from "node:assert/strict";
import { test } from "node:test";

import { attach, newRun } from "./support/harness.mjs";

const SECRET = `sk-proj-${"aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY"}`;
const context = { runId: "r1", sessionKey: "agent:main:main" };
const system = `You are helpful.\n${"A rule with an emoji 😀.\n".repeat(2000)}`;
const input = {
  ...context,
  systemPrompt: system,
  prompt: `look, the key is ${SECRET}`,
  tools: [{ name: "read", description: "Reads a file." }],
  historyMessages: [{ role: "user", content: [{ type: "image", data: "x".repeat(100_000) }, { type: "text", text: "hi" }] }],
};

function captured(t, inputs, capture = "prompts") {
  process.env.CRITIQOR_CAPTURE = capture;
  t.after(() => delete process.env.CRITIQOR_CAPTURE);
  const run = newRun(t);
  const claw = attach();
  for (const each of inputs) {
    claw.hook("before_agent_run", {}, context);
    claw.hook("llm_input", each, context);
    claw.hook("model_call_started", { ...context, provider: "p", model: "m" }, context);
    claw.hook("model_call_ended", { ...context, provider: "p", model: "m", outcome: "completed" }, context);
    claw.hook("agent_end", { success: true, messages: [] }, context);
  }
  const events = run.events();
  const texts = new Map();
  for (const { payload } of events.filter((event) => event.event_type === "prompt_text")) {
    texts.set(payload.digest, (texts.get(payload.digest) ?? "") + payload.text);
  }
  const requests = events.filter((event) => event.event_type === "before_provider_request").map((event) => event.payload);
  return { events, texts, requests };
}

test("without a request nothing of a prompt is recorded", (t) => {
  for (const capture of ["", "other"]) {
    const { texts, requests } = captured(t, [input], capture);
    assert.equal(texts.size, 0);
    assert.equal(requests[0].prompt, undefined);
  }
});

test("each text is recorded once, in parts, and every request names its texts", (t) => {
  const { texts, requests, events } = captured(t, [input, input, { ...input, prompt: "and now?" }]);
  assert.equal(requests.length, 3);
  assert.deepEqual(requests[0].prompt, requests[1].prompt);
  assert.equal(texts.get(requests[0].prompt.system), system);
  assert.deepEqual(JSON.parse(texts.get(requests[0].prompt.tools)), input.tools);
  assert.equal(texts.get(requests[2].prompt.messages[1]), "and now?");
  assert.equal(texts.size, 5);
  const parts = events.filter(({ payload }) => payload.digest === requests[0].prompt.system).map(({ payload }) => [payload.part, payload.parts]);
  assert.deepEqual(parts, parts.map((_, index) => [index + 1, parts.length]));
  assert.ok(events.every((event) => event.event_type !== "prompt_text" || (event.agent_run_id === "r1" && event.payload.text.length <= 8192)));
});

test("secrets and images are not recorded", (t) => {
  const { texts, requests, events } = captured(t, [input]);
  const [message, prompt] = requests[0].prompt.messages;
  assert.match(texts.get(prompt), /^look, the key is \[redacted:/);
  assert.match(texts.get(message), /\[100000 characters\].*hi/);
  assert.ok(!JSON.stringify(events).includes(SECRET));
});

test("what is recorded is bounded, and a request says what is missing", (t) => {
  const large = Array.from({ length: 30 }, (_, index) => ({ ...input, systemPrompt: `${index} ${"word ".repeat(200_000)}` }));
  const { texts, requests } = captured(t, large);
  const total = [...texts.values()].reduce((sum, text) => sum + text.length, 0);
  assert.ok(total < 10 << 20, `${total}`);
  assert.equal(requests.at(-1).prompt.system, null);
});

test("the beginning of a secret that is cut with its text is not recorded", (t) => {
  const start = "word ".repeat((1 << 19) / 5 - 3);
  const cut = `${start}${"-".repeat((1 << 19) - start.length - 13)} ${SECRET} and more`;
  const { texts, requests } = captured(t, [{ ...input, systemPrompt: cut }]);
  const text = texts.get(requests[0].prompt.system);
  assert.equal(text, cut.slice(0, cut.indexOf(SECRET)));
});

test("a long text without spaces is recorded up to its cut, and a long word before the cut is kept", (t) => {
  const { texts, requests } = captured(t, [
    { ...input, systemPrompt: "x".repeat(1 << 20), prompt: `${"é".repeat((1 << 19) - 100)} ${"y".repeat(1 << 10)}` },
  ]);
  const { prompt } = requests[0];
  assert.match(texts.get(prompt.system), /^x{500000,524287}$/);
  assert.match(texts.get(prompt.messages.at(-1)), /^é{524188} $/);
});

test("hostile prompts are recorded as far as possible, and nothing is thrown", (t) => {
  const cycle = { role: "user" };
  cycle.self = cycle;
  const strange = { ...context, systemPrompt: 7, prompt: undefined, tools: "none", historyMessages: [null, cycle, "\ud800"] };
  const { requests } = captured(t, [strange, input]);
  assert.equal(requests.length, 2);
  assert.notEqual(requests[1].prompt.system, null);
});
