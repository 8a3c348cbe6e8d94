// Critiqor's recorder plugin: observes an OpenClaw run and writes what happened to runs/<run_id>/. It judges nothing,
// returns nothing, waits for nothing and never throws; without a run to record it does nothing at all.

import { createRequire } from "node:module";
import path from "node:path";

import { Attachment } from "./attachment.js";
import { completeRecord, isRecord, normalizeEvent, nowIso, START_TIME_BY_TOOL_CALL } from "./events.js";
import { isRunId } from "./journal.js";
import { PLAIN_HOOKS } from "./recorder.js";
import { Recording } from "./recording.js";
import { RULES_DIGEST } from "./redact.js";

export { normalizeEvent, nowIso, START_TIME_BY_TOOL_CALL };

const { version: PLUGIN_VERSION } = createRequire(import.meta.url)("./package.json");

/** Documented names, by the layer that they belong to. Today's OpenClaw emits few of them. */
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

// From the first to the last of these releases OpenClaw knows its typed hooks alone: a subscription to any other name
// is never called and puts a warning into its log. It cannot be asked, so other versions are offered every name.
const TYPED_HOOKS_ALONE = [[2026, 6, 1], [2026, 9, 6]];

// OpenClaw registers a plugin several times in one process, and may load its module anew: one recorder serves them all.
const SHARED = Symbol.for("critiqor.recorder");
const ATTACHED = Symbol.for("critiqor.attachment");

// A process that the monitor has launched records its run alone, also where OpenClaw is attached.
function shared() {
  return monitored() ?? globalThis[ATTACHED] ?? null;
}

function monitored() {
  const { CRITIQOR_RUN_ID: runId, CRITIQOR_RUNS_DIR: runsDir } = process.env;
  if (!runId || !runsDir || !isRunId(runId)) return null;
  const existing = globalThis[SHARED];
  if (existing?.runId === runId && existing.runsDir === runsDir) return existing;
  const recording = new Recording(runId, runsDir);
  return (globalThis[SHARED] = Object.assign(recording, listeners(recording.recorder, () => recording)));
}

// What `critiqor attach` has put into OpenClaw's configuration.
function attached(file) {
  if (typeof file !== "string" || !path.isAbsolute(file)) return null;
  const existing = globalThis[ATTACHED];
  if (existing?.file === file && existing.version === PLUGIN_VERSION) return existing;
  safely(() => existing?.stop());
  const attachment = new Attachment(file, PLUGIN_VERSION);
  return (globalThis[ATTACHED] = Object.assign(attachment, listeners(attachment, () => attachment.current)));
}

// What is subscribed to OpenClaw and hands on what it hears; `blamed` finds the recording that a mishap belongs to.
function listeners(recorder, blamed) {
  const guard = (handle) => (event, context) => {
    try {
      handle(event, context);
    } catch {
      blamed()?.records.failed();
    }
  };
  return {
    guard,
    listening: recorder,
    handlers: new Map(),
    subscribed: new WeakMap(),
    onAgentEvent: guard((event) => recorder.agentEvent(event)),
    onTranscript: guard((update) => recorder.transcriptUpdate(update)),
  };
}

// One handler a name, made once: an emitter that keeps a set of listeners then holds each only once.
function handlerFor(state, eventType, sourceLayer) {
  let handler = state.handlers.get(eventType);
  if (handler === undefined) {
    const { listening } = state;
    handler = TYPED_HOOKS.has(eventType)
      ? state.guard((event, context) => listening.hook(eventType, event, context))
      : state.guard((event, context) => listening.documented(eventType, sourceLayer, event, context));
    state.handlers.set(eventType, handler);
  }
  return handler;
}

// Each registration has its own subscriptions, and only the latest may count. Two that were given one `on` would tell
// twice; an `on` that they inherit from their class is still another one for each.
function namesOn({ subscribed }, api) {
  const key = Object.hasOwn(api, "on") ? api.on : api;
  if (!subscribed.has(key)) subscribed.set(key, new Set());
  return subscribed.get(key);
}

/** Subscribes to one event if this OpenClaw knows it; a name that it does not know is ignored. */
export function safeSubscribe(api, eventType, sourceLayer) {
  const state = shared();
  if (state === null) return false;
  return safely(() => {
    const names = namesOn(state, api);
    if (names.has(eventType)) return;
    api.on(eventType, handlerFor(state, eventType, sourceLayer));
    names.add(eventType);
  });
}

/** Brings session.json of the current run up to its journal, now; a record that it is given is appended first. */
export function updateSessionSummary(event) {
  const state = shared();
  const recording = state?.current;
  if (!recording) return;
  recording.records.flush();
  if (read(() => isRecord(event))) state.guard(() => append(recording, event))();
  recording.summary.finish();
}

function append({ journal }, event) {
  const { record, at } = completeRecord(event, journal.now());
  journal.append(record, at);
}

// An api can be a proxy that refuses what its mode does not have.
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
  const state = monitored() ?? attached(read(() => api.pluginConfig.attachment));
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
  const typedAlone = knowsTypedHooksAlone(api);
  for (const [layer, names] of Object.entries(DOCUMENTED_EVENTS)) {
    for (const name of names) if (!typedAlone || TYPED_HOOKS.has(name)) safeSubscribe(api, name, layer);
  }
  for (const name of UNDOCUMENTED_HOOKS) safeSubscribe(api, name, "extension_api");
}

function knowsTypedHooksAlone(api) {
  const version = /^(\d+)\.(\d+)\.(\d+)/.exec(read(() => api.runtime.version))?.slice(1).map(Number);
  if (version === undefined) return false;
  const order = ([year, month, patch]) => (year * 100 + month) * 1000 + patch;
  const [first, last] = TYPED_HOOKS_ALONE.map(order);
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

// OpenClaw's SDK has a helper of this name that types the entry; this one keeps the plugin loadable without the SDK.
export function definePluginEntry(entry) {
  return entry;
}

export default definePluginEntry({
  id: "critiqor",
  name: "Critiqor",
  description: "Passive flight recorder for OpenClaw agents",
  register,
});
