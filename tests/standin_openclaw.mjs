#!/usr/bin/env node
// A small stand-in for OpenClaw with the same plugin contract: it loads and registers the plugins in the configuration,
// and emits the events of a real agent run in the same order and shape. It needs no model and no account and runs in
// milliseconds; fast tests launch it under the real monitor.
//
//   standin_openclaw.mjs agent [--tools N] [--exit CODE] [--hang] [--kill-self] [--crash-in-tool] [--ignore-int]
//     [--shell COMMAND]   the second tool call runs this command
//     [--slow MS]         each tool call takes this long
//     [--replay FILE]     the events that a real OpenClaw emitted, in place of its own (tests/plugin/fixtures)
//   standin_openclaw.mjs gateway run          loads its plugins and, for the input line "turn", plays a turn
//   standin_openclaw.mjs plugins install|uninstall …, config patch --stdin

import { spawnSync } from "node:child_process";
import readline from "node:readline";

import { pluginApi, replay } from "./standin_replay.mjs";
import { checkLifecycle, plugins, runSettingsCommand } from "./standin_settings.mjs";

const option = (name) => process.argv.indexOf(name);
const numberAfter = (name, fallback) => (option(name) < 0 ? fallback : Number(process.argv[option(name) + 1]));

if (runSettingsCommand(process.argv.slice(2))) process.exit(0);
checkLifecycle();

const { api, handlers, listeners } = pluginApi("full");
async function load() {
  for (const { plugin, config } of await plugins()) plugin.default.register(Object.assign(api, { pluginConfig: config }));
}

let turns = 0;
let runId = "standin-run-0";
const sessionKey = "agent:main:main";
let sequence = 0;
const hook = (name, event) =>
  (handlers.get(name) ?? []).forEach((handler) => handler({ runId, sessionKey, ...event }, { runId, sessionKey, agentId: "main" }));
const stream = (name, data) => {
  sequence += 1;
  listeners.agent.forEach((listener) => listener({ runId, sessionKey, stream: name, data, seq: sequence, ts: Date.now() }));
};
const transcript = (message) => {
  sequence += 1;
  listeners.transcript.forEach((listener) => listener({ sessionKey, message, messageId: `message-${sequence}` }));
};
const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

async function modelCall(number, content, stopReason) {
  const call = { callId: `${runId}:model:${number}`, provider: "stand-in", model: "scripted", contextTokenBudget: 128000 };
  hook("model_call_started", call);
  await pause(3);
  hook("model_call_ended", { ...call, durationMs: 3, outcome: "completed", requestPayloadBytes: 41000 + 200 * number });
  const cost = { input: 0.001, output: 0.00004, total: 0.00104 };
  const usage = { input: 1000, output: 20, cacheRead: 0, cacheWrite: 0, totalTokens: 1020, cost };
  transcript({ role: "assistant", content, usage, stopReason, provider: "stand-in", model: "scripted" });
}

async function tool(toolCallId, toolName, params, { text, exitCode }) {
  stream("tool", { phase: "start", name: toolName, toolCallId, args: params });
  hook("before_tool_call", { toolName, params, toolCallId });
  if (option("--crash-in-tool") > 0) process.kill(process.pid, "SIGKILL");
  await pause(numberAfter("--slow", 2));
  const result = { content: [{ type: "text", text }], details: { status: "completed", exitCode } };
  stream("tool", { phase: "result", name: toolName, toolCallId, isError: false, result });
  hook("after_tool_call", { toolName, params, toolCallId, result, durationMs: 2 });
}

async function turn() {
  turns += 1;
  runId = `standin-run-${turns}`;
  hook("before_agent_run", { prompt: "run the tests" });
  stream("lifecycle", { phase: "start", startedAt: Date.now() });
  transcript({ role: "user", content: "run the tests" });
  const tools = numberAfter("--tools", 2);
  for (let number = 1; number <= tools; number += 1) {
    const id = `call_${number}`;
    const failing = number === tools;
    await modelCall(number, [{ type: "toolCall", id, name: "exec", arguments: {} }], "toolUse");
    const outcome = failing ? { text: "1 failed, 11 passed", exitCode: 1 } : { text: "compiled", exitCode: 0 };
    if (number === 2 && option("--shell") > 0) spawnSync("sh", ["-c", process.argv[option("--shell") + 1]], { stdio: "inherit" });
    await tool(id, "exec", { command: failing ? "npm test" : "npm run build" }, outcome);
  }
  await modelCall(tools + 1, [{ type: "text", text: "Done: the build is green and all tests pass." }], "stop");
  stream("lifecycle", { phase: "finishing", stopReason: "stop", aborted: false });
  hook("agent_end", { success: true, durationMs: 20, messages: [] });
  hook("llm_output", { provider: "stand-in", model: "scripted", usage: { input: 3000, output: 60, cost: { total: 0.00312 } } });
  stream("lifecycle", { phase: "end", stopReason: "stop" });
  process.stdout.write("Done: the build is green and all tests pass.\n");
}

if (option("--replay") > 0) {
  await replay(process.argv[option("--replay") + 1], await plugins());
  process.exit(0);
}
if (option("--ignore-int") > 0) process.on("SIGINT", () => {});
await load();
if (process.argv[2] === "agent" || process.argv[2] === "chat") await turn();
if (process.argv[2] === "gateway") {
  process.stdout.write("ready\n");
  for await (const line of readline.createInterface(process.stdin)) {
    await load();
    if (line === "turn") await turn();
    else process.stdout.write("loaded\n");
  }
}
if (option("--hang") > 0) setInterval(() => {}, 1000);
else if (option("--kill-self") > 0) process.kill(process.pid, "SIGKILL");
else process.exit(numberAfter("--exit", 0));
