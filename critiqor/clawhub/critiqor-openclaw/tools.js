// Records the tool calls of an agent run: the start at once, the end with the facts of the source that reports most. What
// is kept is bounded: the oldest finished calls are dropped, and the arguments and result of every finished call.

import { increment, isMemoryTool, memoryLookup } from "./events.js";
import { outcomeOf } from "./extract.js";

/**
 * @import { Facts, Known } from "./events.js"
 * @import { AgentRunRecords, Waiting } from "./record_writer.js"
 */

/**
 * @typedef {object} ToolStart What a source reports of the start of a call.
 * @property {unknown} id
 * @property {unknown} name
 * @property {unknown} [args]
 * @property {number} [at] now, if it is missing
 * @property {unknown} [parent] the id of the call that this one is a part of
 * @property {Facts} [raw] the whole event, in place of the arguments
 * @property {string} source
 */

/**
 * @typedef {object} EndFacts What sources report of the end of a call.
 * @property {OpenClaw.ToolResult | null} [result]
 * @property {OpenClaw.ErrorValue} [error]
 * @property {unknown} [isError]
 * @property {unknown} [exitCode]
 * @property {unknown} [durationMs]
 * @property {unknown} [args]
 * @property {unknown} [parent]
 * @property {Facts} [raw] the whole event, in place of the result
 * @property {string} [source]
 */

/** @typedef {EndFacts & { id: unknown, name: unknown, source: string }} ToolEnd */

const TOOLS = "tool_hooks";
const MAX_IDS = 2000;
const MAX_CALLS_PER_ID = 64;

/** One tool call, from the first report of its start until its result is written. */
export class ToolCall {
  /** @type {EndFacts} */
  facts = {};
  /** @type {number | null} */
  endedAt = null;
  /** @type {Waiting | null} */
  wait = null; // for a source that reports more about the end
  isWritten = false;
  hasOutput = false;
  updates = 0;
  /** @type {string | null} */
  savedText = null; // the output as OpenClaw has saved it
  /** @type {Map<string, { name: unknown, args: unknown }> | null} */
  starts = new Map(); // what each source has reported, until the end: they use different names for a tool of a CLI backend

  /**
   * @param {unknown} id
   * @param {unknown} name
   * @param {unknown} args
   * @param {number} at
   */
  constructor(id, name, args, at) {
    this.id = id;
    this.name = name;
    this.args = args;
    this.at = at;
  }

  /**
   * Adds what a source reports of the end; what it leaves out stays as another source has reported it.
   * @param {ToolEnd} end
   * @param {number} at
   */
  ended({ result, error, isError, durationMs, args, parent, raw, source }, at) {
    const { facts } = this;
    if (result !== undefined) facts.result = result;
    if (error !== undefined) facts.error = error;
    if (isError !== undefined) facts.isError = isError;
    if (durationMs !== undefined) facts.durationMs = durationMs;
    if (args !== undefined) facts.args = args;
    if (parent !== undefined) facts.parent = parent;
    if (raw !== undefined) facts.raw = raw;
    facts.source = source;
    this.endedAt ??= at;
  }

  /** Drops what can be large: a finished call is kept only to recognize further reports of it. */
  release() {
    this.args = undefined;
    this.facts = {};
    this.wait = null;
    this.starts = null;
  }
}

/** The calls with one id. Ids repeat (a model server may reuse `call_0`, and retries do): the nth end ends the nth call. */
class SameIdCalls {
  /** @type {ToolCall[]} */
  #calls = [];
  #dropped = 0;
  /** @type {Record<string, number>} */
  #starts = {}; // by source
  /** @type {Record<string, number>} */
  #ends = {};

  /**
   * Returns the call whose start a source reports, or null if no source has reported it before.
   * @param {string} source
   */
  startOf(source) {
    return this.#nth(increment(this.#starts, source));
  }

  /**
   * Whether a source reports the start of the same call again: OpenClaw asks its hooks twice about a tool of a CLI backend.
   * @param {string} source
   * @param {unknown} name
   * @param {unknown} args
   */
  isAskedAgain(source, name, args) {
    const call = this.latest;
    const earlier = call?.endedAt === null ? call.starts?.get(source) : undefined;
    return earlier !== undefined && earlier.name === name && isSame(earlier.args, args);
  }

  /**
   * Returns the call whose end a source reports, or null if no source has reported its start.
   * @param {string} source
   */
  endOf(source) {
    return this.#nth(increment(this.#ends, source));
  }

  /** @param {ToolCall} call */
  add(call) {
    this.#calls.push(call);
    if (this.#calls.length <= MAX_CALLS_PER_ID) return;
    this.#calls.shift();
    this.#dropped += 1;
  }

  get latest() {
    return this.#calls.at(-1) ?? null;
  }

  areWritten() {
    return this.#calls.every((call) => call.isWritten);
  }

  /**
   * Counts from the first call that is still kept: a source that is behind reports calls that were dropped.
   * @param {number} count
   */
  #nth(count) {
    return this.#calls[Math.max(0, count - 1 - this.#dropped)] ?? null;
  }
}

/**
 * Whether a result tells only how a call ended, not what it returned.
 * @param {unknown} result
 * @returns {result is Facts}
 */
function lacksOutput(result) {
  return typeof result === "object" && result !== null && "status" in result && !("content" in result);
}

/**
 * @param {unknown} result
 * @param {string | null} text
 */
function withOutput(result, text) {
  return text !== null && lacksOutput(result) ? { ...result, content: [{ type: "text", text }] } : result;
}

/**
 * @param {unknown} one
 * @param {unknown} other
 */
function isSame(one, other) {
  try {
    return one === other || JSON.stringify(one) === JSON.stringify(other);
  } catch {
    return false; // a value that cannot be compared
  }
}

/** Writes `tool_call`, `tool_result` and memory lookups of one agent run. */
export class ToolCalls {
  #records;
  /** @type {Map<unknown, SameIdCalls>} */
  #byId = new Map();
  /** @type {Set<ToolCall>} */
  #ending = new Set(); // calls whose result waits for a source that reports more

  /** @param {AgentRunRecords} records */
  constructor(records) {
    this.#records = records;
  }

  /**
   * @param {string} source
   * @param {ToolStart} start
   */
  start(source, { id, name, args, at, parent, raw, source: origin }) {
    const calls = this.#callsOf(id);
    if (calls.isAskedAgain(source, name, args)) return;
    const known = calls.startOf(source);
    known?.starts?.set(source, { name, args });
    if (known !== null) return;
    this.#records.writeHeld(); // the response that requested the call comes first
    const call = new ToolCall(id, name, args, at ?? this.#records.now());
    call.starts?.set(source, { name, args });
    calls.add(call);
    /** @type {Facts} */
    const payload = raw ? { ...raw, source: origin } : { arguments: args ?? null, source: origin };
    if (parent) payload.parent_tool_call_id = parent;
    this.#write("tool_call", call, { at: call.at, durationMs: null }, payload);
  }

  /**
   * @param {string} source
   * @param {ToolEnd} end
   */
  end(source, end) {
    const calls = this.#callsOf(end.id);
    let call = calls.endOf(source);
    if (call === null) {
      const { id, name, args, source: origin } = end;
      this.start(source, { id, name, args, at: this.#records.before(end.durationMs), source: origin });
      call = calls.latest;
    }
    if (call === null || call.isWritten) return;
    call.ended(end, this.#records.now());
    if (source !== "stream" || !this.#isMoreExpected(call, end)) this.#finish(call);
    else if (call.wait === null) this.#finishLater(call);
  }

  /**
   * Handles output of a command; its end can have the exit code.
   * @param {OpenClaw.StreamData} data
   */
  output({ toolCallId, phase, exitCode }) {
    const call = this.#byId.get(toolCallId)?.latest;
    if (!call || call.isWritten) return;
    call.hasOutput = true;
    if (phase !== "end") return;
    call.facts.exitCode = exitCode ?? undefined;
    if (call.endedAt !== null && !this.#records.hooksLive) this.#finish(call);
  }

  /**
   * Handles the output that OpenClaw has saved: Codex reports the end of a call without it.
   * @param {unknown} id
   * @param {string} text
   */
  saved(id, text) {
    const call = this.#byId.get(id)?.latest;
    if (!call || call.isWritten) return;
    call.savedText = text;
    if (call.endedAt !== null && lacksOutput(call.facts.result)) this.#finish(call);
  }

  /** @param {unknown} id */
  update(id) {
    const call = this.#byId.get(id)?.latest;
    if (call) call.updates += 1;
  }

  /** Writes the results that wait for more, because their turn is over. */
  finishEnded() {
    for (const call of [...this.#ending]) this.#finish(call);
  }

  /** @param {unknown} id */
  #callsOf(id) {
    let calls = this.#byId.get(id);
    if (calls === undefined) {
      if (this.#byId.size >= MAX_IDS) this.#dropOldest(MAX_IDS / 20);
      this.#byId.set(id, (calls = new SameIdCalls()));
    }
    return calls;
  }

  /**
   * Several at once: an iteration over a map passes everything that was deleted from its beginning.
   * @param {number} count
   */
  #dropOldest(count) {
    let left = count;
    for (const [id, calls] of this.#byId) {
      if (!calls.areWritten()) continue;
      this.#byId.delete(id);
      left -= 1;
      if (left === 0) return;
    }
    if (left === count) this.#byId.delete(this.#byId.keys().next().value);
  }

  /**
   * Whether more follows the stream's event: the hook, or the exit code of a command.
   * @param {ToolCall} call
   * @param {ToolEnd} end
   */
  #isMoreExpected(call, end) {
    if (this.#records.hooksLive || lacksOutput(end.result)) return true;
    return call.hasOutput && outcomeOf(end).exitCode === undefined;
  }

  /** @param {ToolCall} call */
  #finishLater(call) {
    this.#ending.add(call);
    call.wait = this.#records.later(() => this.#finish(call));
  }

  /** @param {ToolCall} call */
  #finish(call) {
    if (call.isWritten) return;
    call.isWritten = true;
    this.#ending.delete(call);
    this.#records.cancel(call.wait);
    const { result, durationMs, source, parent, raw } = call.facts;
    const { failure, exitCode } = outcomeOf(call.facts);
    /** @type {Facts} */
    const payload = raw ? { ...raw, source } : { result: withOutput(result ?? null, call.savedText), source };
    if (exitCode !== undefined) payload.exit_code = exitCode;
    if (call.updates > 0) payload.updates = call.updates;
    if (parent) payload.parent_tool_call_id = parent;
    const at = call.endedAt ?? this.#records.now();
    // Ids repeat, so the duration is computed from this call and not from the latest start with the same id.
    const duration = Number.isFinite(durationMs) ? durationMs : Math.max(0, at - call.at);
    const known = { at, durationMs: duration, status: failure === null ? "ok" : "error", error: failure };
    this.#write("tool_result", call, known, payload);
    call.release();
  }

  /**
   * @param {"tool_call" | "tool_result"} eventType
   * @param {ToolCall} call
   * @param {Known} known
   * @param {Facts} payload
   */
  #write(eventType, call, known, payload) {
    known.toolCallId = call.id;
    known.toolName = call.name;
    this.#records.write(eventType, TOOLS, known, payload);
    if (!isMemoryTool(call.name)) return;
    const found = eventType === "tool_result" ? (call.facts.result ?? {}) : undefined;
    const lookup = memoryLookup(call.args ?? call.facts.args, found, known.status === "error");
    this.#records.write(call.name, TOOLS, known, { ...payload, observed_as: eventType, ...lookup });
  }
}
