// Records model calls and turns: a turn begins with a request and ends with the next one or with the agent run.

import { stripUndefined } from "./extract.js";

const EXTENSION = "extension_api";
const WAIT_FOR_USAGE_MS = 500;

/** Writes `turn_start` and `turn_end`. */
export class Turns {
  constructor(records, tools) {
    this.records = records;
    this.tools = tools;
  }

  start(run, at, payload, documented = false) {
    this.end(run);
    run.turn = { number: (run.turns += 1), at, lastAt: at, status: "ok", documented };
    this.records.write("turn_start", EXTENSION, run, { at }, { ...payload, turn: run.turn.number });
  }

  end(run, payload = {}) {
    for (const call of [...run.ending]) this.tools.finish(run, call); // calls that have ended belong to this turn
    if (!run.turn) return;
    const { number, at, lastAt, status } = run.turn;
    run.turn = null;
    const known = { at: lastAt, durationMs: lastAt - at, status };
    this.records.write("turn_end", EXTENSION, run, known, { ...payload, turn: number });
  }
}

/** Writes `before_provider_request` and `after_provider_response`. */
export class ModelCalls {
  constructor(records, turns) {
    this.records = records;
    this.turns = turns;
  }

  // One source reports the model calls of a run. The stream is later and less exact, so any other source replaces it.
  isSourceAccepted(source, run) {
    return run.modelSource === null || run.modelSource === source || run.modelSource === "stream";
  }

  start(source, run, facts) {
    if (!this.isSourceAccepted(source, run)) return;
    if (run.modelSource !== source && run.model) {
      run.model.source = run.modelSource = source; // the same call, from the better source
      return;
    }
    run.modelSource = source;
    this.resumeAttempt(run.attempt);
    this.records.settle(run.response);
    if (run.model) this.end(source, run, { outcome: "unobserved" });
    const at = facts.at ?? this.records.now();
    if (!run.turn?.documented) this.turns.start(run, at, {});
    run.model = { ...facts, at, source };
    run.sawMessage = false;
    run.partial = null; // the text of an earlier call is saved by now
    const payload = { ...facts, ...run.takePrompt(), turn: run.turn.number };
    this.records.write("before_provider_request", EXTENSION, run, { at }, payload);
  }

  // A model call can follow the reported end: another plugin can make an agent continue.
  resumeAttempt(attempt) {
    if (!attempt?.ending) return;
    this.records.cancel(attempt.ending);
    attempt.ending = attempt.endedAt = null;
  }

  end(source, run, reported) {
    if (run.model ? run.model.source !== source : source === "stream" || !this.isSourceAccepted(source, run)) return;
    if (!run.model) this.start(source, run, { ...reported, at: this.records.before(reported.durationMs) });
    const call = run.model;
    run.model = null;
    run.response = null;
    const at = this.records.now();
    const facts = call.failure ? { ...reported, outcome: "error", error: reported.error ?? call.failure } : reported;
    const response = { call, facts, at, usage: facts.usage ?? call.usage, error: facts.error ?? null };
    const write = () => this.writeResponse(run, response);
    run.pending = response;
    const known = facts.outcome === "error" ? response.error !== null : response.usage !== undefined;
    if (known || facts.outcome === "unobserved") write();
    else run.response = this.records.later(WAIT_FOR_USAGE_MS, write);
  }

  writeResponse(run, { call, facts, at, usage, error }) {
    run.response = null;
    run.pending = null;
    const failed = facts.outcome === "error";
    if (failed && run.turn) run.turn.status = "error";
    if (failed) run.lastModelError = error ?? facts.errorCategory ?? "model call failed";
    else run.lastModelError = null;
    if (!failed && usage === undefined) run.noteWithoutUsage(call.at, at);
    const { error: _, ...rest } = facts;
    const payload = { provider: call.provider, model: call.model, ...rest, turn: run.turn?.number, usage: usage ?? null };
    const durationMs = facts.durationMs ?? Math.max(0, at - call.at);
    const known = { at, durationMs, status: failed ? "error" : "ok", error: run.lastModelError };
    this.records.write("after_provider_response", EXTENSION, run, known, payload);
  }

  /** Handles the token count of the stream, which is its only sign that a model call has ended. */
  usage(run, outputTokens) {
    if (run.pending) run.pending.facts.outputTokens = outputTokens;
    else this.end("stream", run, { outcome: "completed", outputTokens });
  }

  // The hook that ends a failed model call has only a category; the message follows on the stream.
  explainError(run, error, observation) {
    const cause = { failover_reason: observation?.failoverReason, failure_kind: observation?.providerRuntimeFailureKind };
    if (run.pending?.facts.outcome === "error") {
      run.pending.error = error;
      Object.assign(run.pending.facts, stripUndefined(cause));
      this.records.settle(run.response);
    } else this.end("stream", run, { outcome: "error", error, ...stripUndefined(cause) });
  }

  // A saved answer has the usage of its model call. OpenClaw 2026.6.1 reports a request as completed even if no server was
  // reached; the saved message has the error.
  message(run, { usage, stopReason, errorMessage }) {
    run.sawMessage = true;
    const failure = stopReason === "error" ? (errorMessage ?? "model call failed") : null;
    if (run.pending) {
      run.pending.usage ??= usage;
      if (failure !== null) {
        run.pending.facts.outcome = "error";
        run.pending.error ??= failure;
      }
      this.records.settle(run.response);
    } else if (run.model) {
      run.model.usage = usage;
      run.model.failure = failure;
      this.end("stream", run, { outcome: "completed" });
    }
  }
}
