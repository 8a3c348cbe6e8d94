// Writes records to the journal: at once, or after waiting for a source that reports more.

import { normalizeEvent } from "./events.js";

/** Writes the records of one run, and keeps those that wait to be written. */
export class RecordWriter {
  constructor(journal, onWrite = () => {}) {
    this.journal = journal;
    this.onWrite = onWrite;
    this.hooksLive = false; // whether typed hooks will add to what the stream reports
    this.waiting = new Set();
    this.handlerErrors = 0;
  }

  /** Writes one record. `known` is modified: missing members are filled in. */
  write(eventType, layer, run, known, payload) {
    const at = (known.at ??= this.journal.now());
    known.status ??= "ok";
    known.error ??= null;
    if (run !== null) {
      known.agentRunId = run.id;
      known.sessionKey = run.sessionKey;
      if (run.turn !== null && at > run.turn.lastAt) run.turn.lastAt = at;
    }
    this.journal.append(normalizeEvent(eventType, payload, layer, known), at);
    this.onWrite();
  }

  now() {
    return this.journal.now();
  }

  /** Returns when something began that took `durationMs` until now; now, if the duration is not plausible. */
  before(durationMs = 0) {
    const now = this.journal.now();
    return now - durationMs > 0 ? now - durationMs : now;
  }

  /** Schedules an action. The returned entry can be settled (done at once) or cancelled. */
  later(milliseconds, action) {
    const entry = { action, timer: null };
    entry.timer = setTimeout(() => this.settle(entry), milliseconds);
    entry.timer.unref();
    this.waiting.add(entry);
    return entry;
  }

  // Also called by a timer, where an exception would end the agent's process.
  settle(entry) {
    if (!entry || !this.waiting.delete(entry)) return;
    clearTimeout(entry.timer);
    try {
      entry.action();
    } catch {
      this.countFailure();
    }
  }

  cancel(entry) {
    if (!entry) return;
    clearTimeout(entry.timer);
    this.waiting.delete(entry);
  }

  /** Counts a fact that could not be recorded; the journal shows that a record is missing. */
  countFailure() {
    this.handlerErrors += 1;
    this.journal.lose();
  }

  /** Writes everything that still waits. */
  flush() {
    for (const entry of [...this.waiting]) this.settle(entry);
  }
}
