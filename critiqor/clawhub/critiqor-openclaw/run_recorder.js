// Records one recording in this process: owns its journal, its snapshot and the event router that writes to them. If the
// recording is cut into segments, a recorder goes on in the journal of the next run; agent runs that have begun are recorded
// to their end where they began, so that no run holds half of one.

import { Journal, runFiles } from "./journal.js";
import { EventRouter } from "./event_router.js";
import { Prompts } from "./prompts.js";
import { RecordWriter } from "./record_writer.js";
import { Snapshot } from "./snapshot.js";
import { Witness } from "./witness.js";

/** @import { Facts } from "./events.js" */

/** @typedef {{ journal: Journal, snapshot: Snapshot, until: number, wasIdle: boolean }} LeftSegment */

const CHECK_LEFT_MS = 250;
/** How long the agent runs of a segment may go on in it; what they do later is recorded in the next one. */
const MAX_LEFT_MS = 10 * 60_000;

/** Records events until the process exits or `end` is called. */
export class RunRecorder {
  #witness;
  #makesFolder;
  #follow;
  #prompts;
  /** @type {Map<string, Facts>} */
  #presences = new Map(); // announcements by registration mode
  /** @type {LeftSegment[]} */
  #left = []; // segments with agent runs that have not ended
  /** @type {NodeJS.Timeout | null} */
  #timer = null;

  /**
   * @param {string} runId
   * @param {string} runsDir
   * @param {{ makesFolder?: boolean, witness?: string, prompts?: boolean, follow?: () => void }} [options]
   *   `follow` is called when the recording may have gone on in another run
   */
  constructor(runId, runsDir, { makesFolder = true, witness = "", prompts = false, follow = () => {} } = {}) {
    this.runId = runId;
    this.runsDir = runsDir;
    this.#witness = witness;
    this.#makesFolder = makesFolder;
    this.#follow = follow;
    this.journal = this.#newJournal();
    this.snapshot = new Snapshot(runId, this.journal);
    this.records = new RecordWriter(this.journal, () => this.#scheduleSnapshots());
    this.#prompts = prompts ? new Prompts((text) => this.journal.redact(text)) : null;
    this.router = new EventRouter(this.records, this.#prompts);
    this.onExit = () => this.complete();
    raiseListenerLimit(1);
    process.once("exit", this.onExit);
  }

  /**
   * The recorder for events that belong to no agent run.
   * @returns {RunRecorder}
   */
  get current() {
    return this;
  }

  /** The registration modes that were announced. */
  get announced() {
    return this.#presences;
  }

  /**
   * Writes a `recorder_attached` record, once for each mode in which OpenClaw registers the plugin.
   * @param {string} mode
   * @param {Facts} presence
   */
  announce(mode, presence) {
    if (this.#presences.has(mode)) return;
    this.journal.open(); // first: if the recording has gone on, what was announced before is announced there
    this.#presences.set(mode, presence);
    if (mode === "full") this.records.hooksLive = true;
    this.#writeAnnouncement(presence);
  }

  /**
   * Goes on in another run: everything new belongs to it, and agent runs in progress to the run before.
   * @param {string} runId
   * @param {string} witness the address of its witness; empty for none
   */
  handOver(runId, witness) {
    const { journal, snapshot } = this;
    this.runId = runId;
    this.#witness = witness;
    this.journal = this.records.journal = this.#newJournal();
    this.snapshot = new Snapshot(runId, this.journal);
    journal.successor = this.journal;
    this.#prompts?.restart();
    if (journal.isUnused || journal.sealed) this.#close(journal);
    else {
      this.#left.push({ journal, snapshot, until: performance.now() + MAX_LEFT_MS, wasIdle: false });
      this.#timer ??= setInterval(() => this.#closeLeft(), CHECK_LEFT_MS).unref();
    }
    this.journal.open();
    if (this.runId !== runId) return; // it has gone on once more
    for (const presence of this.#presences.values()) this.#writeAnnouncement(presence);
  }

  /**
   * Reports to another witness from now on: a guard can begin and end while a run is recorded.
   * @param {string} address empty for none
   */
  reportTo(address) {
    if (address === this.#witness) return;
    this.#witness = address;
    this.journal.witness?.leave();
    this.journal.witness = address ? new Witness(address, this.journal.writer) : null;
  }

  /** Writes waiting records and updates session.json at once, when the process exits. */
  complete() {
    try {
      this.records.flush();
      for (const { journal, snapshot } of [...this.#left, this]) {
        journal.finish();
        if (journal.written > 0) snapshot.finishAtExit();
      }
    } catch {
      // nothing may change how the agent's process ends
    }
  }

  /** Stops recording while the process continues. Waiting records are written; session.json follows later. */
  end() {
    process.off("exit", this.onExit);
    raiseListenerLimit(-1);
    this.records.flush();
    for (const { journal } of this.#left) journal.close();
    this.#left = [];
    this.#stopTimer();
    this.journal.close();
  }

  #newJournal() {
    const address = this.#witness;
    const witness = (/** @type {string} */ writer) => (address ? new Witness(address, writer) : null);
    const options = { makesFolder: this.#makesFolder, witness, follow: this.#follow };
    return new Journal(runFiles(this.runsDir, this.runId), options);
  }

  // The first record of every process in a run: without it, the evidence shows that no recorder was attached.
  /** @param {Facts} presence */
  #writeAnnouncement(presence) {
    this.records.write("recorder_attached", "extension_api", {}, { ...presence, redaction: this.journal.redaction });
  }

  #scheduleSnapshots() {
    this.snapshot.schedule();
    for (const { snapshot } of this.#left) snapshot.schedule();
  }

  // Closes the journals of earlier segments whose agent runs have ended. What is reported shortly after the end still
  // belongs to them, so they are closed at the second look.
  #closeLeft() {
    const now = performance.now();
    this.#left = this.#left.filter((left) => {
      const isIdle = this.#runsOf(left.journal).every((run) => run.isIdle());
      if (now < left.until && !left.journal.sealed && !(isIdle && left.wasIdle)) {
        left.wasIdle = isIdle;
        return true;
      }
      this.#close(left.journal);
      return false;
    });
    if (this.#left.length === 0) this.#stopTimer();
  }

  /** @param {Journal} journal */
  #close(journal) {
    // What they still do belongs to the current segment, and a journal that is over is not kept in memory.
    for (const run of this.#runsOf(journal)) run.records.journal = this.journal;
    journal.close();
  }

  /** @param {Journal} journal */
  #runsOf(journal) {
    return [...this.router.runs.byKey.values()].filter((run) => run.records.journal === journal);
  }

  #stopTimer() {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
  }
}

/**
 * OpenClaw comes close to the number of listeners at which Node warns of a leak. The plugin must not trigger the warning.
 * @param {number} count
 */
function raiseListenerLimit(count) {
  const limit = process.getMaxListeners();
  if (limit > 0) process.setMaxListeners(limit + count);
}
