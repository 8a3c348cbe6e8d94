// Critiqor's recorder plugin: observes OpenClaw and writes what happens to runs/<run_id>/. Its handlers return nothing,
// wait for nothing and never throw. Without a run to record the plugin does nothing.

import { createRequire } from "node:module";
import path from "node:path";

import { Attachment } from "./attachment.js";
import { completeRecord, isRecord, normalizeEvent, nowIso, START_TIME_BY_TOOL_CALL } from "./events.js";
import { isRunId } from "./journal.js";
import { PLAIN_HOOKS } from "./event_router.js";
import { RunRecorder } from "./run_recorder.js";
import { RULES_DIGEST } from "./redact.js";

export { normalizeEvent, nowIso, START_TIME_BY_TOOL_CALL };

const { version: PLUGIN_VERSION } = createRequire(import.meta.url)("./package.json");

/** Documented event names by source layer. Today's OpenClaw emits few of them. */
export const DOCUMENTED_EVENTS = Object.freeze({
  extension_api: [
    "agent_start", "agent_end", "turn_start", "turn_end", "session_start", "session_end", "before_provider_request",
    "after_provider_response", "message_received", "message_sent", "message_start", "message_update", "message_end",
    "input", "user_bash",
  ],
  tool_hooks: ["tool_call", "tool_result", "tool_execution_start", "tool_execution_update", "tool_execution_end"],
});

const TYPED_HOOKS = new Set([
  "before_agent_run", "llm_input", "llm_output", "model_call_started", "model_call_ended", "before_tool_call",
  "after_tool_call", "agent_end", "before_compaction", "after_compaction", ...PLAIN_HOOKS,
]);

const UNDOCUMENTED_HOOKS = [...TYPED_HOOKS].filter((name) => !DOCUMENTED_EVENTS.extension_api.includes(name));

// From the first to the last of these releases OpenClaw knows only its typed hooks: a subscription to another name is
// never called and logs a warning. There is no way to ask, so in other versions every name is subscribed.
const TYPED_HOOKS_ONLY = [[2026, 6, 1], [2026, 9, 6]];

// OpenClaw registers a plugin several times in one process and may reload its module: all of them share one recorder.
const SHARED = Symbol.for("critiqor.recorder");
const ATTACHED = Symbol.for("critiqor.attachment");

// A process launched by the monitor records only its own run, even if OpenClaw is attached as well.
function sharedState() {
  return monitoredRun() ?? globalThis[ATTACHED] ?? null;
}

function monitoredRun() {
  const { CRITIQOR_RUN_ID: runId, CRITIQOR_RUNS_DIR: runsDir } = process.env;
  if (!runId || !runsDir || !isRunId(runId)) return null;
  const existing = globalThis[SHARED];
  if (existing?.runId === runId && existing.runsDir === runsDir) return existing;
  const recorder = new RunRecorder(runId, runsDir);
  return (globalThis[SHARED] = Object.assign(recorder, createListeners(recorder.router, () => recorder)));
}

// The attachment that `critiqor attach` has put into OpenClaw's configuration.
function attachment(file) {
  if (typeof file !== "string" || !path.isAbsolute(file)) return null;
  const existing = globalThis[ATTACHED];
  if (existing?.file === file && existing.version === PLUGIN_VERSION) return existing;
  safely(() => existing?.stop());
  const created = new Attachment(file, PLUGIN_VERSION);
  return (globalThis[ATTACHED] = Object.assign(created, createListeners(created, () => created.current)));
}

// The functions that are subscribed to OpenClaw. `currentRecorder` returns the run recorder that counts an exception.
function createListeners(router, currentRecorder) {
  const guard = (handle) => (event, context) => {
    try {
      handle(event, context);
    } catch {
      currentRecorder()?.records.countFailure();
    }
  };
  return {
    guard,
    router,
    handlers: new Map(),
    subscribed: new WeakMap(),
    onAgentEvent: guard((event) => router.agentEvent(event)),
    onTranscript: guard((update) => router.transcriptUpdate(update)),
  };
}

// One handler per name, created once: an emitter that keeps a set of listeners then holds each only once.
function handlerFor(state, eventType, sourceLayer) {
  let handler = state.handlers.get(eventType);
  if (handler === undefined) {
    const { router } = state;
    handler = TYPED_HOOKS.has(eventType)
      ? state.guard((event, context) => router.hook(eventType, event, context))
      : state.guard((event, context) => router.documented(eventType, sourceLayer, event, context));
    state.handlers.set(eventType, handler);
  }
  return handler;
}

// Each registration has its own subscriptions, and OpenClaw may use only the latest. Two registrations that share an own
// `on` would report everything twice; an `on` inherited from a class is a different one for each instance.
function subscribedNames({ subscribed }, api) {
  const key = Object.hasOwn(api, "on") ? api.on : api;
  if (!subscribed.has(key)) subscribed.set(key, new Set());
  return subscribed.get(key);
}

/** Subscribes to one event; a name that this OpenClaw does not know is ignored. */
export function safeSubscribe(api, eventType, sourceLayer) {
  const state = sharedState();
  if (state === null) return false;
  return safely(() => {
    const names = subscribedNames(state, api);
    if (names.has(eventType)) return;
    api.on(eventType, handlerFor(state, eventType, sourceLayer));
    names.add(eventType);
  });
}

/** Updates session.json of the current run from its journal at once; `event`, if given, is appended first. */
export function updateSessionSummary(event) {
  const state = sharedState();
  const recorder = state?.current;
  if (!recorder) return;
  recorder.records.flush();
  if (read(() => isRecord(event))) state.guard(() => append(recorder, event))();
  recorder.snapshot.finish();
}

function append({ journal }, event) {
  const { record, at } = completeRecord(event, journal.now());
  journal.append(record, at);
}

// The api can be a proxy that throws for members that its mode does not have.
function read(from) {
  try {
    return from();
  } catch {
    return undefined;
  }
}

function safely(action) {
  try {
    action();
    return true;
  } catch {
    return false;
  }
}

/** Called by OpenClaw for each registration of the plugin. */
export function register(api) {
  const state = monitoredRun() ?? attachment(read(() => api.pluginConfig.attachment));
  if (state === null) return;
  const named = read(() => api.registrationMode);
  const mode = typeof named === "string" ? named : "unknown";
  const events = read(() => api.runtime.events);
  const sources = {
    hooks: mode === "full",
    agent_events: safely(() => events.onAgentEvent(state.onAgentEvent)),
    transcript: safely(() => events.onSessionTranscriptUpdate(state.onTranscript)),
  };
  safely(() => state.announce(mode, presence(api, mode, sources)));
  const typedOnly = hasTypedHooksOnly(api);
  for (const [layer, names] of Object.entries(DOCUMENTED_EVENTS)) {
    for (const name of names) if (!typedOnly || TYPED_HOOKS.has(name)) safeSubscribe(api, name, layer);
  }
  for (const name of UNDOCUMENTED_HOOKS) safeSubscribe(api, name, "extension_api");
}

function hasTypedHooksOnly(api) {
  const version = /^(\d+)\.(\d+)\.(\d+)/.exec(read(() => api.runtime.version))?.slice(1).map(Number);
  if (version === undefined) return false;
  const order = ([year, month, patch]) => (year * 100 + month) * 1000 + patch;
  const [first, last] = TYPED_HOOKS_ONLY.map(order);
  return first <= order(version) && order(version) <= last;
}

function presence(api, mode, sources) {
  return {
    mode,
    sources,
    plugin_version: PLUGIN_VERSION,
    redaction: RULES_DIGEST,
    openclaw_version: read(() => api.runtime.version) ?? null,
    node_version: process.version,
    pid: process.pid,
    parent_pid: process.ppid,
    event_source: process.env.CRITIQOR_EVENT_SOURCE ?? null,
  };
}

/** OpenClaw's SDK has a typed helper of this name; this one keeps the plugin loadable without the SDK. */
export function definePluginEntry(entry) {
  return entry;
}

export default definePluginEntry({
  id: "critiqor",
  name: "Critiqor",
  description: "Passive flight recorder for OpenClaw agents",
  register,
});
