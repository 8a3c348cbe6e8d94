// Records the attempts of an agent run: start, end and total usage.

import { stripUndefined } from "./extract.js";

const EXTENSION = "extension_api";
const WAIT_FOR_END_HOOK_MS = 1000;
const WAIT_FOR_TOTALS_MS = 250;

/** Writes `agent_start` and `agent_end`. */
export class Attempts {
  constructor(records, models, turns) {
    this.records = records;
    this.models = models;
    this.turns = turns;
  }

  start(source, run, payload) {
    if (!run.isNews("agent_start", source)) return;
    this.records.settle(run.attempt?.ending); // the end of the previous attempt
    run.attempt = { number: (run.attempts += 1), at: this.records.now(), ending: null };
    this.records.write("agent_start", EXTENSION, run, {}, { attempt: run.attempts, ...payload });
  }

  end(source, run, facts) {
    const unannounced = source === "hook" && run.attempts === 0;
    if (unannounced) run.attempt ??= { number: 1, at: this.records.before(facts.durationMs), ending: null };
    const attempt = run.attempt;
    if (!attempt) return;
    attempt.facts = { ...attempt.facts, ...stripUndefined(facts) };
    attempt.endedAt ??= this.records.now();
    const wait = source === "hook" ? WAIT_FOR_TOTALS_MS : this.records.hooksLive ? WAIT_FOR_END_HOOK_MS : 0;
    this.records.cancel(attempt.ending);
    if (wait === 0) this.finish(run, attempt);
    else attempt.ending = this.records.later(wait, () => this.finish(run, attempt));
  }

  totals(run, event) {
    const attempt = run.attempt;
    if (!attempt) return;
    const { usage, provider, model } = event;
    attempt.facts = { ...attempt.facts, usage_total: usage ?? null, provider, model };
    this.records.settle(attempt.ending);
  }

  finish(run, attempt) {
    if (run.attempt === attempt) run.attempt = null;
    if (run.model) this.models.end(run.model.source, run, { outcome: "unobserved" });
    this.records.settle(run.response);
    if (run.partial && !run.sawMessage) {
      this.records.write("message_end", EXTENSION, run, {}, { role: "assistant", text: run.partial, partial: true });
    }
    run.partial = null;
    this.turns.end(run);
    const { error, success, aborted } = attempt.facts;
    const failure = error ?? run.lastModelError ?? (success === false ? "ended without success" : null);
    const status = failure !== null || aborted === true ? "error" : "ok";
    const reason = failure ?? (aborted === true ? "aborted" : null);
    const durationMs = attempt.facts.durationMs ?? attempt.endedAt - attempt.at;
    const payload = { attempt: attempt.number, ...attempt.facts };
    this.records.write("agent_end", EXTENSION, run, { at: attempt.endedAt, durationMs, status, error: reason }, payload);
  }
}
