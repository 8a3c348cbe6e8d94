// Records the attempts of an agent run, with their total usage, and its turns: a turn begins with a request and ends with
// the next one or with the attempt.

import { stripUndefined } from "./extract.js";

/**
 * @import { Facts } from "./events.js"
 * @import { ModelCalls } from "./models.js"
 * @import { AgentRunRecords, Waiting } from "./record_writer.js"
 * @import { ToolCalls } from "./tools.js"
 */

/** @typedef {{ number: number, at: number, status: "ok" | "error", isDocumented: boolean }} Turn */

/**
 * @typedef {object} Attempt An attempt in progress, or whose end waits for a source that reports more.
 * @property {number} number
 * @property {number} at
 * @property {Facts} facts
 * @property {number | null} endedAt
 * @property {boolean} hasHook whether the hook has reported its end
 * @property {Waiting | null} ending
 */

const EXTENSION = "extension_api";
const VISIBLE_HARNESSES = new Set(["openclaw", "critiqor"]); // they report each of their model calls

/** Writes `turn_start` and `turn_end` of one agent run. */
export class Turns {
  #records;
  #tools;
  #count = 0;
  /** @type {Turn | null} */
  #current = null;

  /**
   * @param {AgentRunRecords} records
   * @param {ToolCalls} tools
   */
  constructor(records, tools) {
    this.#records = records;
    this.#tools = tools;
  }

  get isOpen() {
    return this.#current !== null;
  }

  /** Whether OpenClaw itself reports the current turn. */
  get isDocumented() {
    return this.#current?.isDocumented === true;
  }

  /** The number of the current turn, counted from 1. */
  get number() {
    return this.#current?.number;
  }

  /**
   * @param {number} at
   * @param {Facts} payload
   */
  start(at, payload, isDocumented = false) {
    this.end();
    const turn = (this.#count += 1);
    this.#current = { number: turn, at, status: "ok", isDocumented };
    this.#records.startTurn(at);
    this.#records.write("turn_start", EXTENSION, { at }, { ...payload, turn });
  }

  /** Marks the current turn as failed. */
  fail() {
    if (this.#current) this.#current.status = "error";
  }

  /** @param {Facts} payload */
  end(payload = {}) {
    this.#tools.finishEnded(); // calls that have ended belong to this turn
    if (!this.#current) return;
    const { number: turn, at: startedAt, status } = this.#current;
    this.#current = null;
    const at = this.#records.latestOfTurn;
    this.#records.write("turn_end", EXTENSION, { at, durationMs: at - startedAt, status }, { ...payload, turn });
  }
}

/** Writes `agent_start` and `agent_end` of one agent run. */
export class Attempts {
  #records;
  #models;
  #turns;
  #count = 0;
  /** @type {Attempt | null} */
  #current = null;

  /**
   * @param {AgentRunRecords} records
   * @param {ModelCalls} models
   * @param {Turns} turns
   */
  constructor(records, models, turns) {
    this.#records = records;
    this.#models = models;
    this.#turns = turns;
  }

  get isOpen() {
    return this.#current !== null;
  }

  /** When the current attempt began; undefined if there is none. */
  get startedAt() {
    return this.#current?.at;
  }

  /** @param {Facts} payload */
  start(payload) {
    if (this.#current) this.#records.settle(this.#current.ending); // the end of the previous attempt
    this.#current = newAttempt((this.#count += 1), this.#records.now());
    this.#records.write("agent_start", EXTENSION, {}, { attempt: this.#count, ...payload });
  }

  /**
   * @param {"hook" | "stream"} source
   * @param {Facts} facts
   * @param {boolean} [isLast] whether it is the last event of the stream
   */
  end(source, facts, isLast = false) {
    const isUnannounced = source === "hook" && this.#count === 0;
    if (isUnannounced) this.#current ??= newAttempt(1, this.#records.before(facts.durationMs));
    const attempt = this.#current;
    if (!attempt) return;
    Object.assign(attempt.facts, stripUndefined(facts));
    attempt.endedAt ??= this.#records.now();
    attempt.hasHook ||= source === "hook";
    this.#records.cancel(attempt.ending);
    // The hook follows the stream, the totals follow the hook, and the last event of the stream follows both.
    const isOver = source === "stream" && (attempt.hasHook ? isLast : !this.#records.hooksLive);
    if (isOver) this.#finish(attempt);
    else attempt.ending = this.#records.later(() => this.#finish(attempt));
  }

  /** Continues an attempt after its reported end: another plugin can make an agent go on. */
  resume() {
    const attempt = this.#current;
    if (!attempt?.ending) return;
    this.#records.cancel(attempt.ending);
    attempt.ending = attempt.endedAt = null;
    attempt.hasHook = false;
  }

  /** @param {OpenClaw.LlmOutput} event */
  totals(event) {
    if (!this.#current) return;
    const { usage, provider, model, harnessId } = event;
    // Another harness, such as `codex`, makes the model calls itself.
    const harness = VISIBLE_HARNESSES.has(String(harnessId ?? "openclaw")) ? undefined : harnessId;
    Object.assign(this.#current.facts, stripUndefined({ usage_total: usage ?? null, provider, model, harness }));
    this.#records.settle(this.#current.ending);
  }

  /** @param {Attempt} attempt */
  #finish(attempt) {
    if (this.#current === attempt) this.#current = null;
    this.#models.close();
    const text = this.#models.takeUnsavedText();
    if (text) this.#records.write("message_end", EXTENSION, {}, { role: "assistant", text, partial: true });
    this.#turns.end();
    const { error, success, aborted } = attempt.facts;
    const failure = error ?? this.#models.lastError ?? (success === false ? "ended without success" : null);
    const status = failure !== null || aborted === true ? "error" : "ok";
    const reason = failure ?? (aborted === true ? "aborted" : null);
    const at = attempt.endedAt ?? this.#records.now();
    const durationMs = attempt.facts.durationMs ?? at - attempt.at;
    const payload = { attempt: attempt.number, ...attempt.facts };
    this.#records.write("agent_end", EXTENSION, { at, durationMs, status, error: reason }, payload);
  }
}

/**
 * @param {number} number
 * @param {number} at
 * @returns {Attempt}
 */
function newAttempt(number, at) {
  return { number, at, facts: {}, endedAt: null, hasHook: false, ending: null };
}
