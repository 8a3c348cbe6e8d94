// A secret that was recognized once is replaced wherever it recurs in the run, and a user can add rules and exceptions.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";

import { attach, newRun, PLUGIN } from "./support/harness.mjs";

const { Redactor, RULES_DIGEST } = await import(new URL("redact.js", PLUGIN));
const context = { runId: "r1", sessionKey: "s1" };
const SECRET = "hunter2/hunter+2";

test("a secret recurs without its name, as it is, in JSON, in a URL and in base64", (t) => {
  const run = newRun(t);
  const claw = attach();
  claw.hook("message_received", { content: `password=${SECRET}` }, context);
  const forms = [SECRET, JSON.stringify({ said: SECRET }), encodeURIComponent(SECRET), Buffer.from(SECRET).toString("base64")];
  for (const form of forms) claw.hook("message_received", { content: `it was ${form}.` }, context);
  const [first, ...later] = run.events().map((event) => event.payload.content);
  const mark = first.replace("password=", "");
  assert.match(mark, /^\[redacted:assignment:[0-9a-f]{8}\]$/);
  for (const [index, content] of later.entries()) {
    assert.ok(content.includes(mark), content);
    assert.ok(!content.includes(forms[index]), content);
  }
});

test("a secret is replaced also in the fields before the one that names it", (t) => {
  const run = newRun(t);
  attach().hook("message_received", { first: `see ${SECRET}`, password: SECRET }, context);
  const [{ payload }] = run.events();
  assert.equal(payload.first, `see ${payload.password}`);
});

test("an ordinary word is not replaced everywhere", (t) => {
  const run = newRun(t);
  const claw = attach();
  const words = ["abc", "password", "hunter2", "password1", "session-42", "correct horse"];
  for (const word of words) claw.hook("message_received", { password: word }, context);
  claw.hook("message_received", { content: `${words.join(", ")} of a broken session` }, context);
  assert.equal(run.events().at(-1).payload.content, `${words.join(", ")} of a broken session`);
});

test("the number of remembered secrets is bounded", () => {
  const redactor = new Redactor("key");
  for (let number = 0; number <= 100; number += 1) redactor.field(`first${String(number).padStart(5, "0")}second`);
  assert.equal(redactor.text("first00000second"), "first00000second");
  assert.match(redactor.text("first00100second"), /^\[redacted:field:/);
});

test("rules, fields and exceptions of the user are applied, and are part of the announced version", (t) => {
  const run = newRun(t);
  const rules = JSON.stringify({ rules: [{ kind: "badge", pattern: "EMP-([0-9]{6})" }], fields: ["badge number"], allow: ["EXAMPLE[0-9]+EXAMPLE"] });
  fs.mkdirSync(run.folder, { recursive: true });
  fs.writeFileSync(path.join(run.folder, "redaction.json"), rules);
  attach().hook("message_received", { content: "EMP-123456 came", "Badge-Number": "abcd", password: "EXAMPLE1EXAMPLE" }, context);
  const { payload } = run.lines().find((event) => event.event_type === "message_received");
  assert.match(payload.content, /^EMP-\[redacted:badge:[0-9a-f]{8}\] came$/);
  assert.match(payload["Badge-Number"], /^\[redacted:field:/);
  assert.equal(payload.password, "EXAMPLE1EXAMPLE");
  const digest = createHash("sha256").update(fs.readFileSync(new URL("redaction.json", PLUGIN), "utf8") + rules).digest("hex").slice(0, 16);
  assert.equal(new Redactor("key", rules).digest, digest);
  const announced = run.lines().find((event) => event.event_type === "recorder_attached");
  assert.equal(announced.payload.redaction, digest);
});

test("rules that cannot be read are not announced as applied", () => {
  for (const text of ["{", '{"rules":[{"kind":"x","pattern":"("}],"fields":[],"allow":[]}', "[]"]) {
    assert.equal(new Redactor("key", text).digest, RULES_DIGEST);
  }
});
