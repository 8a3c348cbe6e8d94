// Writes records to the journal: at once, or after waiting for a source that reports more.

import { createRecord } from "./events.js";

/**
 * @import { Facts, Known } from "./events.js"
 * @import { Journal } from "./journal.js"
 */

/** @typedef {{ action: () => void, timer: NodeJS.Timeout }} Waiting An action that a timer will do. */

// How long a record waits for a source that reports more. What follows in the same agent run usually ends the wait; the limit
// is for a source that stays silent, and is long enough for a busy machine.
const MAX_WAIT_MS = 10_000;

/** Writes the records of one run, and keeps those that wait to be written. */
export class RecordWriter {
  /**
   * @param {Journal} journal
   * @param {() => void} onWrite
   */
  constructor(journal, onWrite = () => {}) {
    this.journal = journal;
    this.onWrite = onWrite;
    this.hooksLive = false; // whether typed hooks will add to what the stream reports
    /** @type {Set<Waiting>} */
    this.waiting = new Set();
    this.handlerErrors = 0;
  }

  /**
   * Writes one record. `known` is modified: missing members are filled in.
   * @param {string} eventType
   * @param {string} layer
   * @param {Known} known
   * @param {Facts} payload
   * @param {Journal} [journal] that of an earlier segment, for an agent run that began in it
   */
  write(eventType, layer, known, payload, journal = this.journal) {
    const at = (known.at ??= journal.now());
    known.status ??= "ok";
    known.error ??= null;
    journal.append(createRecord(eventType, payload, layer, known), at);
    this.onWrite();
  }

  now() {
    return this.journal.now();
  }

  /**
   * Schedules an action for when the wait is over. The returned entry can be settled (done at once) or cancelled.
   * @param {() => void} action
   */
  later(action) {
    /** @type {Waiting} */
    const entry = { action, timer: setTimeout(() => this.settle(entry), MAX_WAIT_MS) };
    entry.timer.unref();
    this.waiting.add(entry);
    return entry;
  }

  /**
   * Does a scheduled action now. Also called by a timer, where an exception would end the agent's process.
   * @param {Waiting | null} entry
   */
  settle(entry) {
    if (entry === null || !this.waiting.delete(entry)) return;
    clearTimeout(entry.timer);
    try {
      entry.action();
    } catch {
      this.countFailure();
    }
  }

  /** @param {Waiting | null} entry */
  cancel(entry) {
    if (entry === null) return;
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

/** Writes the records of one agent run. */
export class AgentRunRecords {
  #writer;
  /** @type {Waiting | null} */
  #held = null;
  #latestOfTurn = 0;

  /**
   * @param {RecordWriter} writer
   * @param {string | null} id null if OpenClaw gives none
   */
  constructor(writer, id) {
    this.#writer = writer;
    this.id = id;
    this.journal = writer.journal; // of the segment in which the agent run began: it is recorded there as a whole
    /** @type {string | null} */
    this.sessionKey = null;
  }

  /** Whether typed hooks will add to what the stream reports. */
  get hooksLive() {
    return this.#writer.hooksLive;
  }

  /**
   * Writes one record of this agent run. `known` is modified: missing members are filled in.
   * @param {string} eventType
   * @param {string} layer
   * @param {Known} known
   * @param {Facts} payload
   */
  write(eventType, layer, known, payload) {
    const at = (known.at ??= this.#writer.now());
    if (at > this.#latestOfTurn) this.#latestOfTurn = at;
    known.agentRunId = this.id;
    known.sessionKey = this.sessionKey;
    this.#writer.write(eventType, layer, known, payload, this.id === null ? undefined : this.journal);
  }

  /** The time of the latest record since `startTurn`. */
  get latestOfTurn() {
    return this.#latestOfTurn;
  }

  /** @param {number} at */
  startTurn(at) {
    this.#latestOfTurn = at;
  }

  now() {
    return this.#writer.now();
  }

  /**
   * Returns when something began that took `durationMs` until now; now, if the duration is not plausible.
   * @param {unknown} durationMs
   */
  before(durationMs) {
    const now = this.#writer.now();
    return typeof durationMs === "number" && durationMs >= 0 && durationMs < now ? now - durationMs : now;
  }

  /**
   * Schedules a record that later records of this agent run must not overtake; at most one at a time.
   * @param {() => void} write
   */
  hold(write) {
    this.#held = this.#writer.later(write);
  }

  /** Writes the record that is held, if it is not written yet. */
  writeHeld() {
    this.#writer.settle(this.#held);
  }

  /** @param {() => void} action */
  later(action) {
    return this.#writer.later(action);
  }

  /** @param {Waiting | null} entry */
  settle(entry) {
    this.#writer.settle(entry);
  }

  /** @param {Waiting | null} entry */
  cancel(entry) {
    this.#writer.cancel(entry);
  }
}
