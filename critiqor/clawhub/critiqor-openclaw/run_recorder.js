// Records one run in this process: owns its journal, its snapshot and the event router that writes to them.

import { Journal, runFiles } from "./journal.js";
import { EventRouter } from "./event_router.js";
import { Prompts } from "./prompts.js";
import { RecordWriter } from "./record_writer.js";
import { Snapshot } from "./snapshot.js";
import { Witness } from "./witness.js";

/** @import { Facts } from "./events.js" */

/** Records events of one run until the process exits or `end` is called. */
export class RunRecorder {
  #witness;

  /**
   * @param {string} runId
   * @param {string} runsDir
   */
  constructor(runId, runsDir, { makesFolder = true, witness = "", prompts = false } = {}) {
    this.runId = runId;
    this.runsDir = runsDir;
    this.#witness = witness;
    const connect = (/** @type {string} */ writer) => (witness ? new Witness(witness, writer) : null);
    this.journal = new Journal(runFiles(runsDir, runId), { makesFolder, witness: connect });
    this.snapshot = new Snapshot(runId, this.journal);
    this.records = new RecordWriter(this.journal, () => this.snapshot.schedule());
    this.router = new EventRouter(this.records, prompts ? new Prompts((text) => this.journal.redact(text)) : null);
    /** @type {Set<string>} */
    this.announced = new Set();
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

  /**
   * Writes a `recorder_attached` record, once for each mode in which OpenClaw registers the plugin.
   * @param {string} mode
   * @param {Facts} presence
   */
  announce(mode, presence) {
    if (this.announced.has(mode)) return;
    this.announced.add(mode);
    if (mode === "full") this.records.hooksLive = true;
    // The first record of every process: without it, the evidence shows that no recorder was attached.
    this.records.write("recorder_attached", "extension_api", {}, { ...presence, redaction: this.journal.redaction });
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
      this.journal.finish();
      if (this.journal.written > 0) this.snapshot.finishAtExit();
    } catch {
      // nothing may change how the agent's process ends
    }
  }

  /** Stops recording while the process continues. Waiting records are written; session.json follows later. */
  end() {
    process.off("exit", this.onExit);
    raiseListenerLimit(-1);
    this.records.flush();
    this.journal.close();
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
