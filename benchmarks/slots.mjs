// A process with the recorder plugin that plays one agent run for each line of its input, the number of milliseconds that
// its tool call takes, and answers with a line. Used by slots.py.

import readline from "node:readline";

import plugin from "../critiqor/clawhub/critiqor-openclaw/index.js";

const handlers = new Map();
const listeners = new Set();
plugin.register({
  registrationMode: "full",
  on: (name, handler) => handlers.set(name, handler),
  runtime: {
    version: "bench",
    events: { onAgentEvent: (listener) => listeners.add(listener), onSessionTranscriptUpdate: () => {} },
  },
});

const sessionKey = "agent:main:main";
const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

async function play(runId, milliseconds) {
  const hook = (name, event) => handlers.get(name)?.({ runId, sessionKey, ...event }, { runId, sessionKey });
  const stream = (name, data) => listeners.forEach((listener) => listener({ runId, sessionKey, stream: name, data }));
  const call = { callId: `${runId}:1`, provider: "bench", model: "bench" };
  hook("before_agent_run", { prompt: "work" });
  hook("model_call_started", call);
  hook("model_call_ended", { ...call, durationMs: 1, outcome: "completed" });
  hook("before_tool_call", { toolName: "exec", params: { command: "make" }, toolCallId: `${runId}:tool` });
  await pause(milliseconds);
  const result = { content: [{ type: "text", text: "ok" }], details: { exitCode: 0 } };
  hook("after_tool_call", { toolName: "exec", params: { command: "make" }, toolCallId: `${runId}:tool`, result });
  stream("lifecycle", { phase: "finishing", stopReason: "stop" });
  hook("agent_end", { success: true, durationMs: milliseconds, messages: [] });
  hook("llm_output", { usage: { input: 10, output: 1 } });
  stream("lifecycle", { phase: "end", stopReason: "stop" });
}

let turns = 0;
for await (const line of readline.createInterface(process.stdin)) {
  turns += 1;
  const runId = `${process.pid}-${turns}`;
  await play(runId, Number(line));
  process.stdout.write(`${runId}\n`);
}
process.exit(0);
