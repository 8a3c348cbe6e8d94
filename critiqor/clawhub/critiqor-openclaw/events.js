// Builds the envelope of a record, and derives status, error, duration and memory lookups from what OpenClaw emits.

/** Start time of each open tool call, by its id and, if known, its agent run. */
export const START_TIME_BY_TOOL_CALL = new Map();

const MAX_OPEN_CALLS = 10_000;
const STARTS = new Set(["tool_call", "tool_execution_start"]);
const ENDS = new Set(["tool_result", "tool_execution_end"]);

/** Returns the current time: UTC, ISO 8601, milliseconds. */
export function nowIso() {
  return new Date().toISOString();
}

/** Returns the key of a call in START_TIME_BY_TOOL_CALL: ids repeat between agent runs. */
export function callKey(agentRunId, toolCallId) {
  return agentRunId ? `${agentRunId}\u0000${toolCallId}` : toolCallId;
}

const asText = (error) => (error === null || typeof error === "string" ? error : errorText({ error }));
const isNumber = (value) => typeof value === "number" && Number.isFinite(value);
const textOr = (value, otherwise) => (typeof value === "string" && value !== "" ? value : otherwise);

/**
 * Returns one record in the shape of `critiqor.session.v1`; the journal that writes it adds the event id.
 * `known` overrides what the payload contains: run, session, tool, status, error, duration, time.
 * Payload and layer are accepted in either order.
 */
export function normalizeEvent(eventType, payload, sourceLayer, known = {}) {
  if (typeof payload === "string" && typeof sourceLayer === "object") {
    return normalizeEvent(eventType, sourceLayer, payload, known);
  }
  const facts = payload !== null && typeof payload === "object" ? payload : {};
  const toolCallId = textOr(known.toolCallId, textOr(facts.toolCallId, textOr(facts.tool_call_id, null)));
  const agentRunId = textOr(known.agentRunId, textOr(facts.runId, textOr(facts.run_id, null)));
  const at = known.at ?? Date.now();
  const failed = known.status !== undefined ? known.status === "error" : facts.isError === true;
  return {
    event_id: null,
    event_type: eventType,
    raw_event_type: eventType,
    timestamp: known.at === undefined ? nowIso() : isoOf(at),
    source_layer: sourceLayer,
    session_key: textOr(known.sessionKey, textOr(facts.sessionKey, null)),
    agent_run_id: agentRunId,
    tool_name: textOr(known.toolName, textOr(facts.toolName, textOr(facts.tool_name, null))),
    tool_call_id: toolCallId,
    status: failed ? "error" : "ok",
    error: known.error === undefined ? (failed ? errorText(facts) : null) : asText(known.error),
    duration_ms: duration(eventType, agentRunId, toolCallId, at, known.durationMs),
    payload: facts,
  };
}

/** Whether a value looks like a record. */
export function isRecord(value) {
  return value !== null && typeof value === "object" && typeof value.event_type === "string";
}

/**
 * Returns a complete record for one with a partial envelope; members outside the envelope go into the payload.
 * An invalid or future time becomes `now`, because event ids contain it.
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
    durationMs: duration_ms,
    status: status ?? (error ? "error" : undefined),
    error: error ?? undefined,
  };
  const facts = payload === undefined ? rest : { ...rest, ...copyOf(payload) };
  const record = normalizeEvent(event_type, facts, textOr(source_layer, "extension_api"), known);
  record.raw_event_type = textOr(raw_event_type, event_type);
  return { record, at };
}

// Many records have the same millisecond, and formatting a date costs as much as writing a record.
let formattedAt = -1;
let formatted = "";

function isoOf(at) {
  if (at !== formattedAt) {
    formattedAt = at;
    formatted = new Date(at).toISOString();
  }
  return formatted;
}

function duration(eventType, agentRunId, toolCallId, at, reported) {
  const given = isNumber(reported) ? reported : null;
  if (toolCallId === null) return given;
  const key = callKey(agentRunId, toolCallId);
  if (STARTS.has(eventType)) {
    if (START_TIME_BY_TOOL_CALL.size >= MAX_OPEN_CALLS) {
      START_TIME_BY_TOOL_CALL.delete(START_TIME_BY_TOOL_CALL.keys().next().value);
    }
    START_TIME_BY_TOOL_CALL.set(key, at);
    return null;
  }
  if (!ENDS.has(eventType)) return given;
  const startedAt = START_TIME_BY_TOOL_CALL.get(key);
  START_TIME_BY_TOOL_CALL.delete(key);
  if (given !== null) return given;
  return startedAt === undefined ? null : Math.max(0, at - startedAt);
}

/** Returns a shallow copy of an event of any type. */
export function copyOf(event) {
  try {
    return typeof event === "object" && !ArrayBuffer.isView(event) ? { ...event } : { value: event };
  } catch {
    return { cut: true, reason: "unreadable" };
  }
}

/** Returns the message of an error of any shape. */
export function errorText(facts) {
  for (const value of [facts?.error, facts?.errorMessage, facts?.message]) {
    if (typeof value === "string" && value !== "") return value;
    if (typeof value?.message === "string" && value.message !== "") return value.message;
  }
  return resultText(facts?.result) ?? "no error message was given";
}

/** Returns the first text of a tool result, or null. */
export function resultText(result) {
  if (typeof result === "string") return result === "" ? null : result;
  const content = Array.isArray(result?.content) ? result.content : Array.isArray(result) ? result : [];
  for (const part of content) if (typeof part?.text === "string" && part.text !== "") return part.text;
  return null;
}

/**
 * Returns why a tool result counts as a failure, or null. For OpenClaw a command that exits non-zero is not an error; here
 * it is one, because otherwise failed tests would look like success.
 */
export function toolFailure({ error, isError, result, exitCode }) {
  if (typeof error === "string" && error !== "") return error;
  if (error) return errorText({ error });
  if (isError === true) return errorText({ error: result?.details?.error, result });
  const details = result?.details;
  const code = details?.exitCode ?? exitCode;
  if (typeof code === "number" && code !== 0) return `exit code ${code}`;
  if (typeof details?.exitSignal === "string" && details.exitSignal !== "") return `ended by ${details.exitSignal}`;
  if (details?.timedOut === true || details?.noOutputTimedOut === true) return "timed out";
  if (["error", "failed", "timeout"].includes(details?.status)) return errorText({ error: details.error, result });
  return null;
}

const MEMORY_TOOLS = new Set(["memory_search", "memory_get"]);

/** Whether a tool looks something up in memory. */
export function isMemoryTool(name) {
  return MEMORY_TOOLS.has(name);
}

/** Returns the query of a memory lookup and its result: `pending`, `found`, `empty` or `error`. */
export function memoryLookup(args, result, failed) {
  const request = args !== null && typeof args === "object" ? args : {};
  const lookup = {
    query: typeof request.query === "string" ? request.query : null,
    key: request.key ?? request.path ?? request.id ?? null,
  };
  if (result === undefined) return { ...lookup, lookup: failed ? "error" : "pending" };
  if (failed || isUnavailable(result?.details)) return { ...lookup, lookup: "error" };
  return { ...lookup, lookup: foundAnything(result) ? "found" : "empty" };
}

// A disabled or broken memory returns no results and reports that in its details.
function isUnavailable(details) {
  return details?.disabled === true || details?.unavailable === true || textOr(details?.error, null) !== null;
}

function foundAnything(result) {
  const details = result?.details ?? result;
  for (const list of [details?.results, details?.matches, details?.hits]) if (Array.isArray(list)) return list.length > 0;
  if (typeof details?.text === "string") return details.text.trim() !== "";
  const text = resultText(result);
  return text !== null && text.trim() !== "";
}
