// What a recorder says about its own records: the closing record, and the reports to a monitor.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import fs from "node:fs";
import net from "node:net";
import path from "node:path";
import { mock, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { attach, inProcess, newRun, state, temporaryFolder } from "./support/harness.mjs";

const FULL = Object.assign(new Error("no space left on device"), { code: "ENOSPC" });

/** A monitor that keeps the lines it gets. */
async function monitor(t) {
  const address = path.join(temporaryFolder(t), "witness");
  const received = { text: "", address, lines: () => received.text.split("\n").slice(0, -1) };
  const server = net.createServer((socket) => socket.unref().on("data", (data) => (received.text += data)));
  await new Promise((resolve) => server.listen(address, resolve));
  received.stop = () => server.close();
  t.after(() => server.close());
  return received;
}

async function until(isTrue) {
  for (let tries = 0; !isTrue(); tries += 1) {
    assert.ok(tries < 5000, "it did not happen");
    await sleep(2);
  }
}

const digest = (line) => createHash("sha256").update(line).digest("hex").slice(0, 16);

/** The script of a process that records `count` messages. */
const recording = (count, address, rest = "") => `
  process.env.CRITIQOR_WITNESS = ${JSON.stringify(address)};
  const claw = attach();
  for (let index = 0; index < ${count}; index += 1) claw.hook("message_received", { content: "hi", sessionKey: "s1" });
  ${rest}`;

test("a recorder that ends properly leaves its counts, in a file of the size it had from the start", async (t) => {
  const run = newRun(t);
  const script = `
    const claw = attach();
    claw.hook("message_received", { content: "hi", sessionKey: "s1" });
    process.stdout.write(String(run().size));`;
  const size = `const run = () => import.meta && fs.statSync(path.join(${JSON.stringify(run.folder)}, fs.readdirSync(${JSON.stringify(run.folder)}).find((name) => name.startsWith("recorder-"))));`;
  const { stdout } = await inProcess(run, `const fs = await import("node:fs"); const path = await import("node:path"); ${size} ${script}`).ended;
  const [closing] = run.closings();
  assert.deepEqual([closing.produced, closing.lost], [2, 0]);
  const [name] = fs.readdirSync(run.folder).filter((each) => each.startsWith("recorder-"));
  assert.equal(fs.statSync(path.join(run.folder, name)).size, Number(stdout));
});

test("a recorder that is killed leaves a closing record without counts", async (t) => {
  const run = newRun(t);
  await inProcess(run, recording(3, "", 'process.kill(process.pid, "SIGKILL");')).ended;
  const [closing] = run.closings();
  assert.equal(run.lines().length, 4);
  assert.equal(closing.produced, undefined);
});

test("records that a full disk refuses until the end are in the closing record", async (t) => {
  const run = newRun(t);
  const script = `
    const fs = (await import("node:fs")).default;
    const claw = attach();
    claw.hook("message_received", { content: "kept", sessionKey: "s1" });
    const { writeSync } = fs;
    fs.writeSync = (file, data, offset, length, position) => {
      if (position === 0) return writeSync(file, data, offset, length, position); // its space is reserved
      throw Object.assign(new Error("no space left on device"), { code: "ENOSPC" });
    };
    for (let index = 0; index < 5; index += 1) claw.hook("message_received", { content: "lost", sessionKey: "s1" });`;
  await inProcess(run, script).ended;
  const [closing] = run.closings();
  assert.deepEqual([run.lines().length, closing.produced, closing.lost], [2, 7, 5]);
});

test("each record is reported before it is written, and the end too", async (t) => {
  const run = newRun(t);
  const received = await monitor(t);
  await inProcess(run, recording(20, received.address, "await new Promise((done) => setTimeout(done, 50));")).ended;
  await until(() => received.text.endsWith("end\n"));
  const [hello, ...reports] = received.lines();
  const lines = run.text().split("\n").slice(0, -1);
  assert.match(hello, /^hello [0-9a-z]+$/);
  assert.equal(lines[0].includes(hello.split(" ")[1]), true);
  assert.deepEqual(reports, [...lines.map((line, index) => `${index + 1} ${digest(line)}`), "end"]);
});

test("a killed process has reported every record that it wrote", async (t) => {
  const run = newRun(t);
  const received = await monitor(t);
  const script = `await new Promise((done) => setTimeout(done, 100));
    for (let index = 0; index < 50; index += 1) claw.hook("message_received", { content: "late", sessionKey: "s1" });
    process.kill(process.pid, "SIGKILL");`;
  await inProcess(run, recording(1, received.address, script)).ended;
  await until(() => received.lines().length >= 53);
  assert.equal(run.lines().length, 52);
  assert.equal(received.lines().at(-1), `52 ${digest(run.text().split("\n").at(-2))}`);
});

test("a record that could not be written is reported as lost", async (t) => {
  const run = newRun(t);
  const received = await monitor(t);
  process.env.CRITIQOR_WITNESS = received.address;
  t.after(() => delete process.env.CRITIQOR_WITNESS);
  const claw = attach();
  claw.hook("message_received", { content: "kept", sessionKey: "s1" });
  await until(() => received.lines().length >= 3);
  const { writeSync } = fs;
  const { writer } = state().journal;
  mock.method(fs, "writeSync", (file, data, ...rest) => {
    if (typeof data !== "string" && data.includes(writer)) throw FULL;
    return writeSync(file, data, ...rest);
  });
  t.after(() => mock.restoreAll());
  claw.hook("message_received", { content: "lost", sessionKey: "s1" });
  await until(() => received.lines().length >= 5);
  assert.equal(received.lines().at(-1), "lost 3");
  assert.equal(run.lines().length, 2);
});

test("a recorder that a lock has silenced reports that, and each record that it then drops", async (t) => {
  const run = newRun(t);
  const received = await monitor(t);
  process.env.CRITIQOR_WITNESS = received.address;
  t.after(() => delete process.env.CRITIQOR_WITNESS);
  const claw = attach();
  await until(() => received.lines().length >= 2);
  fs.writeFileSync(run.lock, "sealed");
  await sleep(250);
  claw.hook("message_received", { content: "dropped", sessionKey: "s1" });
  claw.hook("message_received", { content: "dropped", sessionKey: "s1" });
  await until(() => received.lines().length >= 5);
  assert.deepEqual(received.lines().slice(2), ["sealed", "lost 2", "lost 3"]);
  assert.equal(run.lines().length, 1);
});

test("nothing is written once the run is sealed, not even by a process that had begun before", async (t) => {
  const run = newRun(t);
  const claw = attach();
  claw.hook("message_received", { content: "before", sessionKey: "s1" });
  const before = run.text();
  fs.writeFileSync(run.lock, "sealed");
  await sleep(250);
  for (let index = 0; index < 100; index += 1) claw.hook("message_received", { content: "after", sessionKey: "s1" });
  state().complete();
  assert.equal(run.text(), before);
  assert.equal(run.closings()[0].produced, undefined);
});

test("a monitor that is missing, silent or gone changes nothing", async (t) => {
  const received = await monitor(t);
  for (const address of ["/nonexistent/witness", received.address]) {
    const run = newRun(t);
    const rest = address === received.address ? "" : "await new Promise((done) => setTimeout(done, 50));";
    const { code, stderr } = await inProcess(run, recording(100, address, rest)).ended;
    assert.deepEqual([code, stderr, run.lines().length], [0, "", 101]);
  }
});

test("a long journal does not delay the exit: its document is left to the monitor", async (t) => {
  const run = newRun(t);
  fs.mkdirSync(run.folder, { recursive: true });
  fs.writeFileSync(run.journal, `${JSON.stringify({ event_id: "x", event_type: "note", text: "x".repeat(5 << 20) })}\n`);
  await inProcess(run, recording(10, "")).ended;
  assert.equal(fs.existsSync(run.sessionFile), false);
  assert.equal(run.lines().length, 12);
  assert.deepEqual(run.files(), ["journal.jsonl", "redaction.key"]);
});

for (const [how, rest] of [["exits", "process.exit(0);"], ["is killed", 'process.kill(process.pid, "SIGKILL");']]) {
  test(`a process that ${how} before its event loop has turned once has reported its records`, async (t) => {
    const run = newRun(t);
    const received = await monitor(t);
    await inProcess(run, recording(2, received.address, rest)).ended;
    await until(() => received.lines().length >= (how === "exits" ? 5 : 4));
    const [hello, ...reports] = received.lines();
    assert.match(hello, /^hello /);
    const digests = run.text().split("\n").slice(0, -1).map(digest);
    assert.deepEqual(reports.slice(0, 3), digests.map((each, index) => `${index + 1} ${each}`));
    assert.deepEqual(reports.slice(3), how === "exits" ? ["end"] : []);
  });
}

test("reports are complete and in order after a monitor did not read for long", async (t) => {
  const run = newRun(t);
  const address = path.join(temporaryFolder(t), "witness");
  let text = "";
  const sockets = [];
  const server = net.createServer({ pauseOnConnect: true }, (socket) => sockets.push(socket));
  await new Promise((resolve) => server.listen(address, resolve));
  t.after(() => server.close());
  const wait = 'process.stdout.write("written"); await new Promise((resolve) => process.stdin.on("end", resolve).resume());';
  const { child, ended, go } = inProcess(run, recording(3000, address, wait));
  await new Promise((resolve) => child.stdout.once("data", resolve));
  for (const socket of sockets) socket.on("data", (data) => (text += data)).resume();
  go();
  await ended;
  await until(() => text.endsWith("end\n"));
  const numbers = text.split("\n").slice(1, -2).map((line) => Number(line.split(" ")[0]));
  assert.deepEqual(numbers, Array.from({ length: 3001 }, (_, index) => index + 1));
});
