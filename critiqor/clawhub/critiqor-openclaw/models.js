// Records the model calls of an agent run: the request at once, the response with its usage or its error.

import { recoveredUsage, stripUndefined } from "./extract.js";

/**
 * @import { Turns } from "./attempts.js"
 * @import { Facts } from "./events.js"
 * @import { AgentRunRecords } from "./record_writer.js"
 */

/**
 * @typedef {object} ModelCall A model call in progress.
 * @property {number} at
 * @property {string} source the source that reports it
 * @property {unknown} provider
 * @property {unknown} model
 * @property {unknown} usage
 * @property {unknown} [outputTokens] the token count of the stream
 * @property {unknown} failure the error of the saved message
 */

/** @typedef {{ turn: number | undefined, from: number, until: number }} CallWithoutUsage */

const EXTENSION = "extension_api";
const MAX_WITHOUT_USAGE = 50;

/** The text that the model has streamed, for as long as no saved message has it. */
class StreamedText {
  /** @type {string | null} */
  #text = null;
  #isSaved = false;

  /** Begins with the text of the next model call; that of an earlier call is saved by now. */
  restart() {
    this.#text = null;
    this.#isSaved = false;
  }

  /** @param {string} text all that was streamed so far */
  update(text) {
    this.#text = text;
  }

  markSaved() {
    this.#isSaved = true;
  }

  /** Returns the text once, if no message has it. */
  takeUnsaved() {
    const text = this.#isSaved ? null : this.#text;
    this.#text = null;
    return text;
  }
}

/** Usage that arrives in other ways than with a saved message. */
class Usage {
  /** @type {CallWithoutUsage[]} */
  #missing = [];
  #outputTokens = 0;

  /**
   * Returns the output tokens of one call, from the stream's total over the whole run.
   * @param {unknown} total
   */
  outputSince(total) {
    if (typeof total !== "number") return undefined;
    const since = Math.max(0, total - this.#outputTokens);
    this.#outputTokens = total;
    return since;
  }

  /**
   * Remembers a model call without usage; the end of the attempt may report it.
   * @param {CallWithoutUsage} call
   */
  noteMissing(call) {
    if (this.#missing.length < MAX_WITHOUT_USAGE) this.#missing.push(call);
  }

  /**
   * Returns the missing usage once, as far as the history has it.
   * @param {OpenClaw.AgentEnd["messages"]} messages
   */
  recover(messages) {
    return recoveredUsage(messages, this.#missing.splice(0));
  }
}

/** The response to a model call, until its usage or its error is known and it is written. */
class ModelResponse {
  /**
   * @param {ModelCall} call
   * @param {Facts} reported
   * @param {number} at
   */
  constructor(call, reported, at) {
    this.call = call;
    this.at = at;
    /** @type {Facts} */
    this.facts = { ...reported };
    if (call.outputTokens !== undefined) this.facts.outputTokens = call.outputTokens;
    if (call.failure) Object.assign(this.facts, { outcome: "error", error: reported.error ?? call.failure });
    this.usage = this.facts.usage ?? call.usage;
    /** @type {unknown} */
    this.error = this.facts.error ?? null;
  }

  get isFailed() {
    return this.facts.outcome === "error";
  }

  /** Whether no source will report more. */
  get isComplete() {
    return this.facts.outcome === "unobserved" || (this.isFailed ? this.error !== null : this.usage !== undefined);
  }

  /**
   * Adds what the stream reports of a failure.
   * @param {string} error
   * @param {Facts} cause
   */
  addError(error, cause) {
    this.error = error;
    Object.assign(this.facts, cause);
  }

  /**
   * Adds what the saved message has.
   * @param {unknown} usage
   * @param {unknown} failure
   */
  addMessage(usage, failure) {
    this.usage ??= usage;
    if (failure === null) return;
    this.facts.outcome = "error";
    this.error ??= failure;
  }
}

/** Writes `before_provider_request` and `after_provider_response` of one agent run. */
export class ModelCalls {
  #records;
  #turns;
  #onRequest;
  #usage = new Usage();
  #text = new StreamedText();
  /** @type {string | null} */
  #source = null; // the source that reports the model calls of this agent run
  /** @type {ModelCall | null} */
  #call = null; // in progress
  /** @type {ModelResponse | null} */
  #response = null; // waits for its usage or its error
  /** @type {Facts} */
  #prompt = {}; // of the next request
  /** @type {unknown} */
  #lastError = null;

  /**
   * @param {AgentRunRecords} records
   * @param {Turns} turns
   * @param {() => void} onRequest called at each new model call, before it is written
   */
  constructor(records, turns, onRequest) {
    this.#records = records;
    this.#turns = turns;
    this.#onRequest = onRequest;
  }

  get isOpen() {
    return this.#call !== null;
  }

  /** Whether any source has reported a model call: of a CLI backend none does. */
  get isVisible() {
    return this.#source !== null;
  }

  /** The error of the latest response; null if it was none. */
  get lastError() {
    return this.#lastError;
  }

  /**
   * Handles the facts of a prompt: they belong to the first request of an attempt.
   * @param {Facts} facts
   */
  prompt(facts) {
    this.#prompt = facts;
  }

  /**
   * @param {string} source
   * @param {Facts} facts
   */
  start(source, facts) {
    if (!this.#accepts(source)) return;
    // From another source it is the same call, and that source is the better one.
    if (this.#call && this.#source !== source) this.#call.source = this.#source = source;
    else this.#request(source, facts);
  }

  /**
   * @param {string} source
   * @param {Facts} reported
   */
  end(source, reported) {
    if (this.#call ? this.#call.source !== source : source === "stream" || !this.#accepts(source)) return;
    const call = this.#call ?? this.#requestBefore(source, reported);
    this.#call = null;
    const response = new ModelResponse(call, reported, this.#records.now());
    this.#response = response;
    if (response.isComplete) this.#write(response);
    else this.#records.hold(() => this.#write(response));
  }

  /** Ends the call in progress, whose end no source has reported, and writes what waits. */
  close() {
    if (this.#call) this.end(this.#call.source, { outcome: "unobserved" });
    this.#records.writeHeld();
  }

  /**
   * Handles the token count of the stream, which is its only sign that a model call has ended.
   * @param {unknown} total
   */
  usage(total) {
    const outputTokens = this.#usage.outputSince(total);
    if (this.#response) this.#response.facts.outputTokens = outputTokens;
    else if (this.#call && this.#call.source !== "stream") this.#call.outputTokens = outputTokens; // its end follows
    else this.end("stream", { outcome: "completed", outputTokens });
  }

  /**
   * Handles the error message of the stream: the hook that ends a failed model call has only a category.
   * @param {string} error
   * @param {OpenClaw.ErrorObservation | null | undefined} observation
   */
  explainError(error, observation) {
    const { failoverReason, providerRuntimeFailureKind } = observation ?? {};
    const cause = stripUndefined({ failover_reason: failoverReason, failure_kind: providerRuntimeFailureKind });
    if (this.#response?.isFailed) {
      this.#response.addError(error, cause);
      this.#records.writeHeld();
    } else this.end("stream", { outcome: "error", error, ...cause });
  }

  /** @param {string} text */
  streamed(text) {
    this.#text.update(text);
  }

  /** Returns the streamed text once, if no message has it. */
  takeUnsavedText() {
    return this.#text.takeUnsaved();
  }

  /**
   * Handles a saved answer, which has the usage of its model call. OpenClaw 2026.6.1 reports a request as completed even if
   * no server was reached; the saved message has the error.
   * @param {OpenClaw.Message} message
   */
  answered({ usage, stopReason, errorMessage }) {
    this.#text.markSaved();
    const failure = stopReason === "error" ? (errorMessage ?? "model call failed") : null;
    if (this.#response) {
      this.#response.addMessage(usage, failure);
      this.#records.writeHeld();
    } else if (this.#call) {
      this.#call.usage = usage;
      this.#call.failure = failure;
      this.end("stream", { outcome: "completed" });
    }
  }

  /**
   * Returns the usage of calls that had none when they were written, as far as the history has it.
   * @param {OpenClaw.AgentEnd["messages"]} messages
   */
  recoverUsage(messages) {
    this.#records.writeHeld();
    return this.#usage.recover(messages);
  }

  /**
   * One source reports the model calls of a run. The stream is later and less exact, so any other source replaces it.
   * @param {string} source
   */
  #accepts(source) {
    return this.#source === null || this.#source === source || this.#source === "stream";
  }

  /**
   * Writes the request of a call of which only the end was reported.
   * @param {string} source
   * @param {Facts} reported
   */
  #requestBefore(source, reported) {
    const at = this.#records.before(reported.durationMs);
    return this.#request(source, { ...reported, at }, at);
  }

  /**
   * @param {string} source
   * @param {Facts} facts
   * @param {number} [startedAt]
   */
  #request(source, facts, startedAt) {
    this.#source = source;
    this.#onRequest();
    this.close();
    const at = startedAt ?? this.#records.now();
    if (!this.#turns.isDocumented) this.#turns.start(at, {});
    const { provider, model, usage } = facts;
    const call = { at, source, provider, model, usage, failure: null };
    this.#call = call;
    this.#text.restart();
    const payload = { ...facts, ...this.#prompt, turn: this.#turns.number };
    this.#prompt = {};
    this.#records.write("before_provider_request", EXTENSION, { at }, payload);
    return call;
  }

  /** @param {ModelResponse} response */
  #write({ call, facts, at, usage, error, isFailed }) {
    this.#response = null;
    this.#lastError = isFailed ? (error ?? facts.errorCategory ?? "model call failed") : null;
    const turn = this.#turns.number;
    if (isFailed) this.#turns.fail();
    else if (usage === undefined) this.#usage.noteMissing({ turn, from: call.at, until: at });
    const { error: _, ...rest } = facts;
    const payload = { provider: call.provider, model: call.model, ...rest, turn, usage: usage ?? null };
    const durationMs = facts.durationMs ?? Math.max(0, at - call.at);
    const known = { at, durationMs, status: isFailed ? "error" : "ok", error: this.#lastError };
    this.#records.write("after_provider_response", EXTENSION, known, payload);
  }
}
