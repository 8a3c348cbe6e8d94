// Secrets are replaced before they touch the disk, wherever they are in an event.

import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";

import { attach, inProcess, newRun, PLUGIN, plugin } from "./support/harness.mjs";

const { isSecretField, mayHoldSecret, Redactor } = await import(new URL("redact.js", PLUGIN));
const RULES = JSON.parse(fs.readFileSync(new URL("redaction.json", PLUGIN), "utf8"));
const context = { runId: "r1", sessionKey: "s1" };
const letters = (count) => "a1B2c3D4e5F6g7H8".repeat(10).slice(0, count);

// One of each kind, in pieces, so that nobody takes this file for a leak.
const SECRETS = {
  private_key: `-----BEGIN ${"PRIVATE"} KEY-----\nMIIE${letters(60)}\n${letters(64)}\n-----END ${"PRIVATE"} KEY-----`,
  anthropic_key: `sk-${"ant"}-${letters(40)}`,
  openai_key: `sk-${letters(40)}`,
  github_token: `${"ghp"}_${letters(36)}`,
  gitlab_token: `${"glpat"}-${letters(20)}`,
  slack_token: `${"xoxb"}-${letters(20)}`,
  aws_access_key: `${"AKIA"}${"ABCDEFGH12345678"}`,
  google_key: `${"AIza"}${letters(35)}`,
  npm_token: `${"npm"}_${letters(36)}`,
  stripe_key: `${"sk"}_live_${letters(24)}`,
  telegram_token: `123456789:${"AA"}${letters(33)}`,
  jwt: `${"eyJ"}${letters(20)}.${"eyJ"}${letters(20)}.${letters(20)}`,
  bearer: { text: (secret) => `curl -H 'X-Auth: Bearer ${secret}'`, secret: `~${letters(20)}` },
  basic_auth: { text: (secret) => `Authorization: Basic ${secret}`, secret: letters(24) },
  url_password: { text: (secret) => `postgres://ada:${secret}@db/x`, secret: "pa55:w0rd" },
  assignment: { text: (secret) => `export DB_PASSWORD=${secret}`, secret: "hunter2hunter2" },
};
const example = (kind) => (typeof SECRETS[kind] === "string" ? { secret: SECRETS[kind], text: (secret) => secret } : SECRETS[kind]);

function assertGone(run, secret) {
  const written = fs.readdirSync(run.folder).filter((name) => name !== "redaction.key").map((name) => fs.readFileSync(path.join(run.folder, name), "utf8")).join("\n");
  for (const part of secret.split("\n")) {
    assert.ok(!written.includes(part), `${part.slice(0, 12)}… was written`);
    if (part.length > 12) assert.ok(!written.includes(part.slice(0, 12)) || part.startsWith("-----"), `the beginning of ${part.slice(0, 12)}… was written`);
  }
}

test("there is an example of every kind", () => {
  assert.deepEqual(Object.keys(SECRETS), RULES.patterns.map((rule) => rule.kind));
});

for (const kind of Object.keys(SECRETS)) {
  test(`${kind} is replaced in arguments, outputs, errors, messages, keys and lists`, (t) => {
    const run = newRun(t);
    const claw = attach();
    const { secret, text } = example(kind);
    const leak = text(secret);
    claw.hook("before_tool_call", { toolCallId: "c1", toolName: "exec", params: { command: `set -e\n${leak}\nls` } }, context);
    claw.hook("after_tool_call", { toolCallId: "c1", toolName: "exec", result: { content: [{ type: "text", text: `first\n${leak}` }] }, error: leak, durationMs: 1 }, context);
    claw.hook("message_received", { content: leak, list: [["x", leak]], [leak]: 1 }, context);
    claw.transcript({ sessionKey: "s1", messageId: "m", message: { role: "assistant", content: [{ text: leak }], stopReason: "error", errorMessage: leak } });
    claw.stream("lifecycle", { phase: "start" });
    claw.stream("lifecycle", { phase: "error", error: `failed: ${leak}` });
    claw.hook("after_tool_call", { toolCallId: "c2", toolName: leak, params: {}, error: "Tool not found" }, context);
    plugin.updateSessionSummary();
    assertGone(run, secret);
    const tags = [...run.text().matchAll(/\[redacted:[a-z_]+:[0-9a-f]{8}\]/g)].map(String);
    assert.ok(tags.length >= 8);
    assert.equal(run.of("tool_result")[0].payload.result.content[0].text.startsWith("first\n"), true);
  });
}

test("equal secrets have equal tags in all processes of a run, and other tags in another run", async (t) => {
  const first = newRun(t);
  const script = `attach().hook("message_received", { content: "use " + "sk-" + "${letters(40)}" });`;
  await Promise.all([inProcess(first, script).ended, inProcess(first, script).ended, inProcess(first, script).ended]);
  const second = newRun(t);
  await inProcess(second, script).ended;
  const tags = (run) => run.lines().filter((event) => event.event_type === "message_received").map((event) => event.payload.content);
  assert.equal(tags(first).length, 3);
  assert.equal(new Set(tags(first)).size, 1);
  assert.match(tags(first)[0], /^use \[redacted:openai_key:[0-9a-f]{8}\]$/);
  assert.notEqual(tags(first)[0], tags(second)[0]);
});

test("different secrets have different tags", () => {
  const redactor = new Redactor(Buffer.from("key"));
  assert.notEqual(redactor.text(`sk-${letters(30)}`), redactor.text(`sk-${letters(31)}`));
});

test("a field is secret by its name, in every spelling, whatever its value", (t) => {
  const run = newRun(t);
  const claw = attach();
  const values = ["correct horse battery", "a b c d", 'quo"te', "back\\slash", "tab\there", "größe"];
  const names = ["password", "API_KEY", "api-key", "apiKey", "X-Api-Key", "Client Secret", "accessToken2", "Set-Cookie", "pass_word", "PassPhrase", "🔑token"];
  for (const name of names) {
    for (const value of values) {
      assert.ok(isSecretField(name), name);
      claw.hook("message_received", { headers: { [name]: value } }, context);
    }
  }
  for (const event of run.events()) {
    const [value] = Object.values(event.payload.headers);
    assert.match(value, /^\[redacted:field:[0-9a-f]{8}\]$/);
  }
  assert.equal(run.events().length, names.length * values.length);
});

test("a secret field with a list of values has none of them written", (t) => {
  const run = newRun(t);
  attach().hook("message_received", { headers: { "set-cookie": ["sid=topsecret1", "x", "sid=topsecret2"] } }, context);
  assert.doesNotMatch(run.text(), /topsecret/);
});

test("names and values that only resemble secrets are kept", (t) => {
  const run = newRun(t);
  const kept = { tokens: 5, token: "abc", tokenCount: "12345678", keyboard: "qwertyuiop", monkey: "bananas12", note: "the password is safe", total_tokens: "1234567890" };
  attach().hook("message_received", { ...kept, content: "risk-based, task_list; password: string; token=null" }, context);
  const [{ payload }] = run.events();
  assert.equal(payload.content, "risk-based, task_list; password: string; token=null");
  for (const [name, value] of Object.entries(kept)) assert.deepEqual(payload[name], value, name);
});

test("a secret across the edge of an excerpt is replaced whole", (t) => {
  const run = newRun(t);
  const claw = attach();
  const secret = `sk-${letters(48)}`;
  for (let before = 1990; before <= 2060; before += 5) {
    claw.hook("message_received", { content: `${"x ".repeat(before / 2).padEnd(before)} ${secret} ${"y ".repeat(6000)}` }, context);
    claw.hook("after_tool_call", { toolCallId: `${before}`, toolName: "exec", error: `${"x ".repeat(before / 2)} ${secret} ${"y ".repeat(6000)}` }, context);
    claw.hook("after_tool_call", { toolCallId: `r${before}`, toolName: "exec", result: { content: [{ text: `${"x ".repeat(before / 2)} ${secret} ${"y ".repeat(600)}` }], details: { status: "failed" } } }, context);
    claw.hook("message_received", { [`${"k ".repeat((before - 1800) / 2)} ${secret}`]: 1 }, context);
  }
  assertGone(run, secret);
  assert.match(run.text(), /\[redacted:openai_key/);
});

test("what redaction moves into an excerpt from the far end of what was seen is no half of a secret", (t) => {
  const run = newRun(t);
  const claw = attach();
  const key = `-----BEGIN ${"PRIVATE"} KEY-----\n${letters(100)}\n-----END ${"PRIVATE"} KEY-----\n`.padEnd(200);
  const secret = `sk-${letters(48)}`;
  for (let shift = 0; shift < 60; shift += 7) {
    const before = `${key.repeat(28)}${"z ".repeat(250)}`.slice(0, 6144 - shift);
    claw.hook("message_received", { content: `${before} ${secret} ${"y ".repeat(3000)}` }, context);
  }
  assertGone(run, secret);
});

test("a private key that is longer than what is looked at leaves its tag and nothing else", (t) => {
  const run = newRun(t);
  attach().hook("message_received", { content: `here: -----BEGIN RSA ${"PRIVATE"} KEY-----\n${`${letters(64)}\n`.repeat(300)}` }, context);
  assert.doesNotMatch(run.text(), new RegExp(letters(20)));
  assert.match(run.events()[0].payload.content.excerpt, /^here: \[redacted:private_key:[0-9a-f]{8}\]$/);
});

test("the digest of a short text with a secret does not give the secret away", (t) => {
  const run = newRun(t);
  const fill = Object.fromEntries(Array.from({ length: 40 }, (_, index) => [`fill${index}`, "f ".repeat(4096)]));
  const text = `password=hunter2hunter2 ${"and so on ".repeat(8)}`;
  attach().hook("message_received", { ...fill, last: text }, context);
  attach().hook("message_received", { ...fill, last: text.replace("hunter2", "hunter3") }, context);
  const [first, second] = run.events().map((event) => event.payload.last);
  assert.equal(first.cut, true);
  assert.doesNotMatch(run.text(), /hunter[23]/);
  assert.notEqual(first.digest, second.digest); // tags differ, as the secrets do
});

// ── the gate ──

function randomness(seed) {
  let value = seed;
  const next = () => {
    value = (Math.imul(value, 1664525) + 1013904223) >>> 0;
    return value / 2 ** 32;
  };
  const below = (limit) => Math.floor(next() * limit);
  const pick = (list) => list[below(list.length)];
  return { below, pick };
}

/** Whether the rules would change anything in a value. */
function wouldRedact(value, redactor, secretField = false) {
  if (typeof value === "string") return (secretField ? redactor.field(value) : redactor.text(value)) !== value;
  if (Array.isArray(value)) return value.some((item) => wouldRedact(item, redactor, secretField));
  if (value === null || typeof value !== "object") return false;
  return Object.entries(value).some(([key, item]) => redactor.text(key) !== key || wouldRedact(item, redactor, isSecretField(key)));
}

const NAMES = ["password", "Password", "PASSWORD", "passwd", "Passwd", "PASSWD", "secret", "SECRET", "Secret", "token", "TOKEN", "api_key", "api-key", "apikey", "apiKey", "Api_Key", "api_Key", "API_KEY", "APIKEY", "access_key", "accesskey", "accessKey", "access_Key", "ACCESS_KEY", "ACCESSKEY", "Authorization", "authorization"];
const SPACES = ["", " ", "  ", "\n", "\t", "\r\n", "\n\t ", "\u000b", "\f", "\u00a0", "\u2028"];
const QUOTES = ["", '"', "'"];
const CHARACTERS = ["a", "Z", "7", "1", "\\", "/", "+", "-", "_", ".", "~", "!", "@", "#", "%", "^", "*", "=", ":", "|", "?", "$", "ü", "😀", "\u0001", "\b", " ", '"', "'", "n", "r", "t", "u"];
const SEPARATORS = ["", "", "", "_", "-", " ", ".", "1", "é", "😀", "\u2028", "\u007f", "/", "'"];

test("the gate is never stricter than the rules", () => {
  const { below, pick } = randomness(20_260_906);
  const redactor = new Redactor(Buffer.from("key"));
  const word = (length) => Array.from({ length }, () => pick(CHARACTERS)).join("");
  const spelled = (name) => [...name].map((letter) => (below(2) ? letter : letter.toUpperCase()) + pick(SEPARATORS)).join("").slice(0, 40);
  const makers = [
    () => `${pick(NAMES)}${pick(QUOTES)}${pick(SPACES)}${pick(["=", ":"])}${pick(SPACES)}${pick(QUOTES)}${word(4 + below(12))}`,
    () => `${pick(NAMES)}${pick(QUOTES)}${pick(SPACES)}${pick(["=", ":"])}${pick(SPACES)}${pick(QUOTES)}${pick(["Basic ", "basic  ", "Bearer ", "bearer   "])}${word(2)}${letters(4 + below(20))}`,
    () => `${pick(["Bearer", "bearer"])}${" ".repeat(1 + below(2))}${pick(["", ".", "~", "+", "/", "=", "-"])}${letters(8 + below(12))}`,
    () => `x://${word(below(4))}:${word(1 + below(6))}@host`,
    () => { const { text, secret } = example(pick(Object.keys(SECRETS))); return text(secret.slice(0, below(8) ? undefined : -below(30))); },
  ];
  const record = () => {
    const leak = `${pick(["", "x ", "\n", '"', "\\", "é"])}${pick(makers)()}${pick(["", " y", "\n", '"', "\\"])}`;
    const field = spelled(pick(RULES.fields.names));
    const value = pick([() => word(2 + below(8)), () => [word(1 + below(6)), word(6)], () => letters(4 + below(4)), () => leak])();
    return pick([
      () => ({ text: leak }),
      () => ({ list: [1, { deep: leak }] }),
      () => ({ [leak]: 1 }),
      () => ({ json: JSON.stringify({ said: leak }) }),
      () => ({ json: JSON.stringify({ [pick(NAMES)]: letters(12) }, null, below(3)) }),
      () => ({ a: 1, [field]: value }),
      () => ({ headers: { [field]: value } }),
    ])();
  };
  let redacted = 0;
  for (let index = 0; index < 30_000; index += 1) {
    const payload = record();
    if (!wouldRedact(payload, redactor)) continue;
    redacted += 1;
    const line = JSON.stringify({ session_key: "agent:main:main", status: "ok", error: null, payload });
    assert.ok(mayHoldSecret(line, line.indexOf('"status":')), `the gate lets by ${line}`);
  }
  assert.ok(redacted > 5000, `${redacted} records with secrets`);
});

test("every text that a pattern matches contains one of its hints", () => {
  const { below, pick } = randomness(7);
  const assignment = RULES.patterns.find((rule) => rule.kind === "assignment");
  for (const rule of RULES.patterns) {
    const { text, secret } = example(rule.kind);
    assert.ok(rule.hints.some((hint) => text(secret).includes(hint)), rule.kind);
  }
  for (const name of NAMES.filter((each) => !/uthorization/.test(each))) {
    const text = `${name}${pick(["=", ": "])}${letters(10 + below(5))}`;
    assert.match(text, new RegExp(assignment.pattern));
    assert.ok(assignment.hints.some((hint) => text.includes(hint)), text);
  }
});

test("a mark is not taken for a secret, whatever its kind is called", () => {
  const redactor = new Redactor("key");
  for (const kind of Object.keys(SECRETS)) {
    const { text, secret } = example(kind);
    const once = redactor.text(text(secret));
    assert.equal(once.match(/\[redacted:/g).length, 1, once);
    assert.equal(redactor.text(once), once);
  }
});

test("text made to be hard to search costs no more than its length", () => {
  const redactor = new Redactor("key");
  // A pattern that goes back and forth would need millions of steps here, and hold the agent for as long.
  const steps = (unit, times) => {
    const text = unit.repeat(times);
    const began = process.cpuUsage().user;
    redactor.text(text);
    return process.cpuUsage().user - began;
  };
  for (const unit of ["eyJ", "eyJaaaaaaaaaaa.", "token=", "://a:b", "-----BEGIN PRIVATE KEY-----", "sk-", "key='"]) {
    steps(unit, 4000);
    const [short, long] = [steps(unit, 4000), steps(unit, 32_000)].map((cost) => cost + 10_000);
    assert.ok(long < short * 32, `${unit}: ${short} µs for 4,000 and ${long} µs for 32,000`);
  }
});
