// Critiqor's recorder plugin: observes OpenClaw and writes what happens to runs/<run_id>/. Its handlers return nothing,
// wait for nothing and never throw. Without a run to record the plugin does nothing.

import { createRequire } from "node:module";
import path from "node:path";

import { Attachment } from "./attachment.js";
import { completeRecord, isRecord, normalizeEvent, nowIso, START_TIME_BY_TOOL_CALL } from "./events.js";
import { TYPED_HOOKS } from "./event_router.js";
import { isRunId } from "./journal.js";
import { RunRecorder } from "./run_recorder.js";
import { activeRun, followSlot, witnessOf } from "./slot.js";

export { normalizeEvent, nowIso, START_TIME_BY_TOOL_CALL };

/**
 * @import { EventRouter } from "./event_router.js"
 * @import { Facts, GivenRecord } from "./events.js"
 */

/** @typedef {RunRecorder & Listeners<EventRouter> & { recording: string }} MonitoredRun */
/** @typedef {Attachment & Listeners<Attachment>} Attached */

/** @type {{ version: string }} */
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

const UNDOCUMENTED_HOOKS = [...TYPED_HOOKS].filter((name) => !DOCUMENTED_EVENTS.extension_api.includes(name));

// From the first to the last of these releases OpenClaw knows only its typed hooks: a subscription to another name is
// never called and logs a warning. There is no way to ask, so in other versions every name is subscribed.
const TYPED_HOOKS_ONLY = { first: "2026.6.1", last: "2026.9.6" };

// OpenClaw registers a plugin several times in one process and may reload its module: all of them share one recorder.
const SHARED = Symbol.for("critiqor.recorder");
const ATTACHED = Symbol.for("critiqor.attachment");
/** @type {typeof globalThis & { [SHARED]?: MonitoredRun, [ATTACHED]?: Attached }} */
const shared = globalThis;

// A process launched by the monitor records only its own run, even if OpenClaw is attached as well.
function sharedState() {
  return monitoredRun() ?? shared[ATTACHED] ?? null;
}

function monitoredRun() {
  const { CRITIQOR_RUN_ID: runId, CRITIQOR_RUNS_DIR: runsDir } = process.env;
  if (!runId || !runsDir || !isRunId(runId)) return null;
  const existing = shared[SHARED];
  if (existing?.recording === runId && existing.runsDir === runsDir) return existing;
  const { CRITIQOR_WITNESS: address = "", CRITIQOR_CAPTURE: capture = "", CRITIQOR_SLOT_FILE: slot } = process.env;
  const isCut = slot !== undefined && path.isAbsolute(slot);
  // A process that starts late finds the recording in a later run.
  const current = (isCut ? activeRun(slot, runId) : null) ?? runId;
  const witness = current === runId ? address : witnessOf(runsDir, current);
  const follow = isCut ? followSlot(slot, runId, () => recorder) : undefined;
  const prompts = capture.split(",").includes("prompts");
  const recorder = new RunRecorder(current, runsDir, { witness, prompts, follow });
  const listeners = createListeners(recorder.router, () => recorder);
  return (shared[SHARED] = Object.assign(recorder, listeners, { recording: runId }));
}

/**
 * Returns the attachment that `critiqor attach` has put into OpenClaw's configuration.
 * @param {unknown} file
 */
function attachment(file) {
  if (typeof file !== "string" || !path.isAbsolute(file)) return null;
  const existing = shared[ATTACHED];
  if (existing?.file === file && existing.version === PLUGIN_VERSION) return existing;
  safely(() => existing?.stop());
  const created = new Attachment(file, PLUGIN_VERSION);
  return (shared[ATTACHED] = Object.assign(created, createListeners(created, () => created.current)));
}

/**
 * @template Event
 * @typedef {(event: Event, context?: OpenClaw.HookContext) => void} Listener
 */

/**
 * @template {EventRouter | Attachment} Router
 * @typedef {object} Listeners What is subscribed to OpenClaw.
 * @property {Router} router
 * @property {<Event>(handle: Listener<Event>) => Listener<Event>} guard
 * @property {Map<string, OpenClaw.HookListener>} handlers by event name
 * @property {WeakMap<object, Set<string>>} subscribed names, by registration
 * @property {(event: OpenClaw.AgentEvent) => void} onAgentEvent
 * @property {(update: OpenClaw.TranscriptUpdate) => void} onTranscript
 */

/**
 * Returns the functions that are subscribed to OpenClaw.
 * @template {EventRouter | Attachment} Router
 * @param {Router} router
 * @param {() => RunRecorder | null} currentRecorder returns the run recorder that counts an exception
 * @returns {Listeners<Router>}
 */
function createListeners(router, currentRecorder) {
  /** @type {Listeners<Router>["guard"]} */
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

/**
 * Returns the handler of a name, created once: an emitter that keeps a set of listeners then holds each only once.
 * @param {MonitoredRun | Attached} state
 * @param {string} eventType
 * @param {string} sourceLayer
 */
function handlerFor(state, eventType, sourceLayer) {
  let handler = state.handlers.get(eventType);
  if (handler === undefined) {
    const { router } = state;
    /** @type {OpenClaw.HookListener} */
    const handle = TYPED_HOOKS.has(eventType)
      ? (event, context) => router.hook(eventType, event, context)
      : (event, context) => router.documented(eventType, sourceLayer, event, context);
    state.handlers.set(eventType, (handler = state.guard(handle)));
  }
  return handler;
}

/**
 * Returns the names that are subscribed with a registration. Each registration has its own subscriptions, and OpenClaw may
 * use only the latest. Two registrations that share an own `on` would report everything twice; an `on` inherited from a
 * class is a different one for each instance.
 * @param {MonitoredRun | Attached} state
 * @param {OpenClaw.PluginApi} api
 */
function subscribedNames({ subscribed }, api) {
  const key = Object.hasOwn(api, "on") ? api.on : api;
  let names = subscribed.get(key);
  if (names === undefined) subscribed.set(key, (names = new Set()));
  return names;
}

/**
 * Subscribes to one event; a name that this OpenClaw does not know is ignored.
 * @param {OpenClaw.PluginApi} api
 * @param {string} eventType
 * @param {string} sourceLayer
 */
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

/**
 * Updates session.json of the current run from its journal at once; `event`, if given, is appended first.
 * @param {unknown} [event]
 */
export function updateSessionSummary(event) {
  const state = sharedState();
  const recorder = state?.current;
  if (!state || !recorder) return;
  recorder.records.flush();
  const given = read(() => (isRecord(event) ? event : undefined));
  if (given) state.guard(() => append(recorder, given))(given);
  recorder.snapshot.finish();
}

/**
 * @param {RunRecorder} recorder
 * @param {GivenRecord} event
 */
function append({ journal }, event) {
  const { record, at } = completeRecord(event, journal.now());
  journal.append(record, at);
}

/**
 * Reads something from the api, which can be a proxy that throws for members that its mode does not have.
 * @template Value
 * @param {() => Value} from
 */
function read(from) {
  try {
    return from();
  } catch {
    return undefined;
  }
}

/** @param {() => void} action */
function safely(action) {
  try {
    action();
    return true;
  } catch {
    return false;
  }
}

/**
 * Called by OpenClaw for each registration of the plugin.
 * @param {OpenClaw.PluginApi} api
 */
export function register(api) {
  const state = monitoredRun() ?? attachment(read(() => api.pluginConfig?.attachment));
  if (state === null) return;
  const named = read(() => api.registrationMode);
  const mode = typeof named === "string" ? named : "unknown";
  const sources = {
    hooks: mode === "full",
    agent_events: safely(() => api.runtime.events.onAgentEvent(state.onAgentEvent)),
    transcript: safely(() => api.runtime.events.onSessionTranscriptUpdate(state.onTranscript)),
  };
  safely(() => state.announce(mode, presence(api, mode, sources)));
  const typedOnly = hasTypedHooksOnly(api);
  for (const [layer, names] of Object.entries(DOCUMENTED_EVENTS)) {
    for (const name of names) if (!typedOnly || TYPED_HOOKS.has(name)) safeSubscribe(api, name, layer);
  }
  for (const name of UNDOCUMENTED_HOOKS) safeSubscribe(api, name, "extension_api");
}

/** @param {OpenClaw.PluginApi} api */
function hasTypedHooksOnly(api) {
  const version = ordinalOf(read(() => api.runtime.version));
  return ordinalOf(TYPED_HOOKS_ONLY.first) <= version && version <= ordinalOf(TYPED_HOOKS_ONLY.last);
}

/**
 * Returns a number by which releases are in order; NaN for what is no release.
 * @param {unknown} version
 */
function ordinalOf(version) {
  const [, year, month, patch] = /^(\d+)\.(\d+)\.(\d+)/.exec(typeof version === "string" ? version : "") ?? [];
  return (Number(year) * 100 + Number(month)) * 1000 + Number(patch);
}

/**
 * @param {OpenClaw.PluginApi} api
 * @param {string} mode
 * @param {Facts} sources
 */
function presence(api, mode, sources) {
  return {
    mode,
    sources,
    plugin_version: PLUGIN_VERSION,
    openclaw_version: read(() => api.runtime.version) ?? null,
    node_version: process.version,
    pid: process.pid,
    parent_pid: process.ppid,
    event_source: process.env.CRITIQOR_EVENT_SOURCE ?? null,
  };
}

/**
 * OpenClaw's SDK has a typed helper of this name; this one keeps the plugin loadable without the SDK.
 * @template Entry
 * @param {Entry} entry
 */
export function definePluginEntry(entry) {
  return entry;
}

export default definePluginEntry({
  id: "critiqor",
  name: "Critiqor",
  description: "Passive flight recorder for OpenClaw agents",
  register,
});
