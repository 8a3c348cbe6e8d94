// Builds the envelope of a record, and derives status, error, duration and memory lookups from what OpenClaw emits.

/** @typedef {{ [name: string]: unknown }} Facts Values of any type by name, such as the payload of a record. */

/**
 * @typedef {object} Known What is known of a record beside its payload. Names can come from OpenClaw as anything.
 * @property {number} [at]
 * @property {unknown} [agentRunId]
 * @property {unknown} [sessionKey]
 * @property {unknown} [toolName]
 * @property {unknown} [toolCallId]
 * @property {unknown} [status] "error", or anything else for a success
 * @property {unknown} [error]
 * @property {unknown} [durationMs] null if there is none; without it, that of a tool call is computed from its start
 */

/**
 * @typedef {object} EventRecord One record in the shape of `critiqor.session.v1`.
 * @property {string | null} event_id null until the journal that writes it gives it one
 * @property {string} event_type
 * @property {string} raw_event_type
 * @property {string} timestamp
 * @property {string} source_layer
 * @property {string | null} session_key
 * @property {string | null} agent_run_id
 * @property {string | null} tool_name
 * @property {string | null} tool_call_id
 * @property {"ok" | "error"} status
 * @property {string | null} error
 * @property {number | null} duration_ms
 * @property {Facts} payload
 */

/** @typedef {Facts & { event_type: string }} GivenRecord A record whose envelope may be incomplete. */

const EXTENSION = "extension_api";

/**
 * Start time of each open tool call, by its id and, if known, its agent run.
 * @type {Map<string, number>}
 */
export const START_TIME_BY_TOOL_CALL = new Map();

const MAX_OPEN_CALLS = 10_000;
const STARTS = new Set(["tool_call", "tool_execution_start"]);
const ENDS = new Set(["tool_result", "tool_execution_end"]);
/** @type {Set<unknown>} */
const BAD_STATUS = new Set(["error", "failed", "timeout"]);

/** Returns the current time: UTC, ISO 8601, milliseconds. */
export function nowIso() {
  return new Date().toISOString();
}

/**
 * Returns the key of a call in START_TIME_BY_TOOL_CALL: ids repeat between agent runs.
 * @param {string | null} agentRunId
 * @param {string} toolCallId
 */
export function callKey(agentRunId, toolCallId) {
  return agentRunId ? `${agentRunId}\u0000${toolCallId}` : toolCallId;
}

/**
 * Counts one more occurrence of a name; returns how many there are.
 * @param {Record<string, number>} counts
 * @param {string} name
 */
export function increment(counts, name) {
  return (counts[name] = (counts[name] ?? 0) + 1);
}

/** @param {unknown} value */
const textOf = (value) => (typeof value === "string" && value !== "" ? value : null);

/** @param {unknown} error */
const asText = (error) => (error === null || typeof error === "string" ? error : errorText({ error }));

/**
 * Returns one record; payload and layer are accepted in either order.
 * @param {string} eventType
 * @param {Facts | string | null | undefined} payload
 * @param {Facts | string | null | undefined} sourceLayer
 * @param {Known} [known]
 * @returns {EventRecord}
 */
export function normalizeEvent(eventType, payload, sourceLayer, known = {}) {
  if (typeof payload === "string" && typeof sourceLayer === "object") {
    return normalizeEvent(eventType, sourceLayer, payload, known);
  }
  const facts = payload !== null && typeof payload === "object" ? payload : {};
  return createRecord(eventType, facts, textOf(sourceLayer) ?? EXTENSION, known);
}

/**
 * Returns one record. `known` overrides what the payload contains: run, session, tool, status, error, duration, time.
 * @param {string} eventType
 * @param {Facts} facts
 * @param {string} sourceLayer
 * @param {Known} known
 * @returns {EventRecord}
 */
export function createRecord(eventType, facts, sourceLayer, known) {
  const toolCallId = textOf(known.toolCallId) ?? textOf(facts.toolCallId) ?? textOf(facts.tool_call_id);
  const agentRunId = textOf(known.agentRunId) ?? textOf(facts.runId) ?? textOf(facts.run_id);
  const at = known.at ?? Date.now();
  const failed = known.status !== undefined ? known.status === "error" : facts.isError === true;
  return {
    event_id: null,
    event_type: eventType,
    raw_event_type: eventType,
    timestamp: isoOf(at),
    source_layer: sourceLayer,
    session_key: textOf(known.sessionKey) ?? textOf(facts.sessionKey),
    agent_run_id: agentRunId,
    tool_name: textOf(known.toolName) ?? textOf(facts.toolName) ?? textOf(facts.tool_name),
    tool_call_id: toolCallId,
    status: failed ? "error" : "ok",
    error: known.error === undefined ? (failed ? errorText(facts) : null) : asText(known.error),
    duration_ms: duration(eventType, agentRunId, toolCallId, at, known.durationMs),
    payload: facts,
  };
}

/**
 * Whether a value looks like a record.
 * @param {unknown} value
 * @returns {value is GivenRecord}
 */
export function isRecord(value) {
  return value !== null && typeof value === "object" && "event_type" in value && typeof value.event_type === "string";
}

/**
 * Returns a complete record for one with a partial envelope; members outside the envelope go into the payload.
 * An invalid or future time becomes `now`, because event ids contain it.
 * @param {GivenRecord} given
 * @param {number} now
 */
export function completeRecord(given, now) {
  const {
    event_id: _, event_type, raw_event_type, timestamp, source_layer, session_key, agent_run_id, tool_name, tool_call_id,
    status, error, duration_ms, payload, ...rest
  } = given;
  const parsed = typeof timestamp === "string" ? Date.parse(timestamp) : NaN;
  const at = parsed >= 0 && parsed <= now ? parsed : now;
  const known = {
    at,
    sessionKey: session_key,
    agentRunId: agent_run_id,
    toolName: tool_name,
    toolCallId: tool_call_id,
    durationMs: duration_ms ?? undefined,
    status: status ?? (error ? "error" : undefined),
    error: error ?? undefined,
  };
  const facts = payload === undefined ? rest : { ...rest, ...copyOf(payload) };
  const record = createRecord(event_type, facts, textOf(source_layer) ?? EXTENSION, known);
  record.raw_event_type = textOf(raw_event_type) ?? event_type;
  return { record, at };
}

// Many records have the same millisecond, and formatting a date costs as much as writing a record.
let formattedAt = -1;
let formatted = "";

/** @param {number} at */
function isoOf(at) {
  if (at !== formattedAt) {
    formattedAt = at;
    formatted = new Date(at).toISOString();
  }
  return formatted;
}

/**
 * @param {string} eventType
 * @param {string | null} agentRunId
 * @param {string | null} toolCallId
 * @param {number} at
 * @param {unknown} reported
 */
function duration(eventType, agentRunId, toolCallId, at, reported) {
  const given = typeof reported === "number" && Number.isFinite(reported) ? reported : null;
  if (toolCallId === null || reported === null) return given;
  if (given !== null && START_TIME_BY_TOOL_CALL.size === 0) return given;
  const key = callKey(agentRunId, toolCallId);
  if (STARTS.has(eventType)) {
    if (START_TIME_BY_TOOL_CALL.size >= MAX_OPEN_CALLS) {
      const [oldest = ""] = START_TIME_BY_TOOL_CALL.keys();
      START_TIME_BY_TOOL_CALL.delete(oldest);
    }
    START_TIME_BY_TOOL_CALL.set(key, at);
    return null;
  }
  if (!ENDS.has(eventType)) return given;
  const startedAt = given === null ? START_TIME_BY_TOOL_CALL.get(key) : undefined;
  START_TIME_BY_TOOL_CALL.delete(key);
  return startedAt === undefined ? given : Math.max(0, at - startedAt);
}

/**
 * Returns a shallow copy of an event of any type.
 * @param {unknown} event
 * @returns {OpenClaw.DocumentedEvent}
 */
export function copyOf(event) {
  try {
    return typeof event === "object" && !ArrayBuffer.isView(event) ? { ...event } : { value: event };
  } catch {
    return { cut: true, reason: "unreadable" };
  }
}

/**
 * Returns the message of an error of any shape.
 * @param {OpenClaw.Failure | null | undefined} facts
 */
export function errorText(facts) {
  for (const value of [facts?.error, facts?.errorMessage, facts?.message]) {
    const text = textOf(value) ?? textOf(value?.message);
    if (text !== null) return text;
  }
  return resultText(facts?.result) ?? "no error message was given";
}

/**
 * Returns the first text of a tool result, or null.
 * @param {OpenClaw.ToolResult | null | undefined} result
 */
export function resultText(result) {
  if (typeof result === "string") return textOf(result);
  const content = Array.isArray(result?.content) ? result.content : Array.isArray(result) ? result : [];
  for (const part of content) {
    const text = textOf(part?.text);
    if (text !== null) return text;
  }
  return null;
}

/**
 * Returns why a tool result counts as a failure, or null. For OpenClaw a command that exits non-zero is not an error; here
 * it is one, because otherwise failed tests would look like success.
 * @param {OpenClaw.ToolOutcome} end
 */
export function toolFailure({ error, isError, result, exitCode }) {
  if (error) return errorText({ error });
  const details = result?.details;
  const code = details?.exitCode ?? result?.exitCode ?? exitCode;
  const hasFailed = typeof code === "number" && code !== 0;
  // Codex reports a failed command by its exit code alone.
  if (isError === true && !(hasFailed && details === undefined)) return errorText({ error: details?.error, result });
  if (hasFailed) return `exit code ${code}`;
  const signal = textOf(details?.exitSignal);
  if (signal !== null) return `ended by ${signal}`;
  if (details?.timedOut === true || details?.noOutputTimedOut === true) return "timed out";
  if (BAD_STATUS.has(details?.status)) return errorText({ error: details?.error, result });
  return null;
}

/**
 * Whether a tool looks something up in memory.
 * @param {unknown} name
 * @returns {name is "memory_search" | "memory_get"}
 */
export function isMemoryTool(name) {
  return name === "memory_search" || name === "memory_get";
}

/**
 * Returns the query of a memory lookup and its result: `pending`, `found`, `empty` or `error`.
 * @param {unknown} args
 * @param {OpenClaw.ToolResult | undefined} result
 * @param {boolean} failed
 */
export function memoryLookup(args, result, failed) {
  /** @type {OpenClaw.MemoryRequest} */
  const request = args !== null && typeof args === "object" ? args : {};
  const lookup = {
    query: typeof request.query === "string" ? request.query : null,
    key: request.key ?? request.path ?? request.id ?? null,
  };
  if (result === undefined) return { ...lookup, lookup: failed ? "error" : "pending" };
  if (failed || isUnavailable(result?.details)) return { ...lookup, lookup: "error" };
  return { ...lookup, lookup: foundAnything(result) ? "found" : "empty" };
}

/**
 * Whether memory is disabled or broken: it then returns no results and reports that in its details.
 * @param {OpenClaw.ToolDetails | null | undefined} details
 */
function isUnavailable(details) {
  return details?.disabled === true || details?.unavailable === true || textOf(details?.error) !== null;
}

/** @param {OpenClaw.ToolResult} result */
function foundAnything(result) {
  const details = result?.details ?? result;
  for (const list of [details?.results, details?.matches, details?.hits]) if (Array.isArray(list)) return list.length > 0;
  if (typeof details?.text === "string") return details.text.trim() !== "";
  const text = resultText(result);
  return text !== null && text.trim() !== "";
}
