// The way of a fact into the journal: written at once, or held back until a richer source has told of it too.

import { normalizeEvent } from "./events.js";

/** Writes the records of one run of Critiqor, and keeps what waits to be written. */
export class Records {
  constructor(journal, onWrite = () => {}) {
    this.journal = journal;
    this.onWrite = onWrite;
    this.hooksLive = false; // whether typed hooks will tell more of what the stream tells
    this.waiting = new Set();
    this.handlerErrors = 0;
  }

  /** Writes one record. `known` becomes this call's: it is completed here. */
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

  /** When something began that took so long until now; now, where that cannot be. */
  before(durationMs = 0) {
    const now = this.journal.now();
    return now - durationMs > 0 ? now - durationMs : now;
  }

  /** Does something in a while, or sooner when it is settled; what it returns can also be cancelled. */
  later(milliseconds, action) {
    const entry = { action, timer: null };
    entry.timer = setTimeout(() => this.settle(entry), milliseconds);
    entry.timer.unref();
    this.waiting.add(entry);
    return entry;
  }

  // Also called by a timer, where an error would end the agent's process.
  settle(entry) {
    if (!entry || !this.waiting.delete(entry)) return;
    clearTimeout(entry.timer);
    try {
      entry.action();
    } catch {
      this.failed();
    }
  }

  cancel(entry) {
    if (!entry) return;
    clearTimeout(entry.timer);
    this.waiting.delete(entry);
  }

  /** Counts a fact that could not be made into a record; its absence can be seen in the journal. */
  failed() {
    this.handlerErrors += 1;
    this.journal.lose();
  }

  /** Writes everything that still waits for a richer source. */
  flush() {
    for (const entry of [...this.waiting]) this.settle(entry);
  }
}
