// Model calls and the turns that they make: a turn begins with a request and ends with the next one or with the run.

import { stripUndefined } from "./facts.js";

const EXTENSION = "extension_api";
const WAIT_FOR_USAGE_MS = 500;

/** Writes the turns of agent runs. */
export class Turns {
  constructor(records, tools) {
    this.records = records;
    this.tools = tools;
  }

  start(run, at, told, documented = false) {
    this.end(run);
    run.turn = { number: (run.turns += 1), at, lastAt: at, status: "ok", documented };
    this.records.write("turn_start", EXTENSION, run, { at }, { ...told, turn: run.turn.number });
  }

  end(run, told = {}) {
    for (const call of [...run.ending]) this.tools.finish(run, call); // what has ended, ended in this turn
    if (!run.turn) return;
    const { number, at, lastAt, status } = run.turn;
    run.turn = null;
    const known = { at: lastAt, durationMs: lastAt - at, status };
    this.records.write("turn_end", EXTENSION, run, known, { ...told, turn: number });
  }
}

/** Writes the model calls of agent runs. */
export class ModelCalls {
  constructor(records, turns) {
    this.records = records;
    this.turns = turns;
  }

  // One source tells of the model calls of a run. The stream tells later and less exactly, and gives way to any other.
  mayTell(source, run) {
    return run.modelSource === null || run.modelSource === source || run.modelSource === "stream";
  }

  start(source, run, facts) {
    if (!this.mayTell(source, run)) return;
    if (run.modelSource !== source && run.model) {
      run.model.source = run.modelSource = source; // the same call, from the better source
      return;
    }
    run.modelSource = source;
    this.goOn(run.attempt);
    this.records.settle(run.response);
    if (run.model) this.end(source, run, { outcome: "unobserved" });
    const at = facts.at ?? this.records.now();
    if (!run.turn?.documented) this.turns.start(run, at, {});
    run.model = { ...facts, at, source };
    run.sawMessage = false;
    run.partial = null; // the words of an earlier call are saved by now
    const payload = { ...facts, ...run.takePrompt(), turn: run.turn.number };
    this.records.write("before_provider_request", EXTENSION, run, { at }, payload);
  }

  // A model call after the end that was told: another plugin can ask an agent to go on.
  goOn(attempt) {
    if (!attempt?.ending) return;
    this.records.cancel(attempt.ending);
    attempt.ending = attempt.endedAt = null;
  }

  end(source, run, told) {
    if (run.model ? run.model.source !== source : source === "stream" || !this.mayTell(source, run)) return;
    if (!run.model) this.start(source, run, { ...told, at: this.records.before(told.durationMs) });
    const call = run.model;
    run.model = null;
    run.response = null;
    const at = this.records.now();
    const facts = call.failure ? { ...told, outcome: "error", error: told.error ?? call.failure } : told;
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
    const { error: _, ...told } = facts;
    const payload = { provider: call.provider, model: call.model, ...told, turn: run.turn?.number, usage: usage ?? null };
    const durationMs = facts.durationMs ?? Math.max(0, at - call.at);
    const known = { at, durationMs, status: failed ? "error" : "ok", error: run.lastModelError };
    this.records.write("after_provider_response", EXTENSION, run, known, payload);
  }

  /** What the stream counts at the end of a model call, which it tells of in no other way. */
  usage(run, outputTokens) {
    if (run.pending) run.pending.facts.outputTokens = outputTokens;
    else this.end("stream", run, { outcome: "completed", outputTokens });
  }

  // The hook that ends a failed model call gives only a category; the words follow on the stream.
  explainError(run, error, observation) {
    const cause = { failover_reason: observation?.failoverReason, failure_kind: observation?.providerRuntimeFailureKind };
    if (run.pending?.facts.outcome === "error") {
      run.pending.error = error;
      Object.assign(run.pending.facts, stripUndefined(cause));
      this.records.settle(run.response);
    } else this.end("stream", run, { outcome: "error", error, ...stripUndefined(cause) });
  }

  // A saved answer has the usage of its model call. OpenClaw 2026.6.1 calls a request completed that found no server;
  // what it saved says that it failed.
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
