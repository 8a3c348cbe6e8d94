// Replays what a real OpenClaw emitted, in the process of the stand-in: all its registrations of the plugins, its hooks,
// agent events and transcript updates, in their order and with their pauses.

import fs from "node:fs";

const MAX_PAUSE_MS = 100; // the start of a real OpenClaw takes seconds, in which it emits nothing

/** What OpenClaw hands to its plugins when it registers them, with the handlers that they subscribe. */
export function pluginApi(mode) {
  const handlers = new Map();
  const listeners = { agent: new Set(), transcript: new Set() };
  const api = {
    registrationMode: mode,
    on: (name, handler) => handlers.set(name, [...(handlers.get(name) ?? []), handler]),
    runtime: {
      version: "stand-in",
      events: {
        onAgentEvent: (listener) => listeners.agent.add(listener),
        onSessionTranscriptUpdate: (listener) => listeners.transcript.add(listener),
      },
    },
  };
  return { mode, api, handlers, listeners };
}

function register(mode, plugins) {
  const made = pluginApi(mode);
  for (const { plugin, config } of plugins) plugin.default.register(Object.assign(made.api, { pluginConfig: config }));
  return made;
}

/** Replays the rows of a file, and prints the last answer of the agent. */
export async function replay(file, plugins) {
  const rows = fs.readFileSync(file, "utf8").trim().split("\n").map((line) => JSON.parse(line));
  const registrations = [];
  let now = 0;
  for (const { t = now, kind, name, event, ctx } of rows) {
    await new Promise((resolve) => setTimeout(resolve, Math.min(t - now, MAX_PAUSE_MS)));
    now = t;
    if (kind === "register") registrations.push(register(name, plugins));
    const [first] = registrations;
    if (kind === "hook") {
      const { handlers } = registrations.findLast(({ mode }) => mode === "full");
      (handlers.get(name) ?? []).forEach((handler) => handler(event, ctx ?? undefined));
    }
    if (kind === "agent" || kind === "transcript") first.listeners[kind].forEach((listener) => listener(event));
  }
  process.stdout.write("replayed\n");
}
