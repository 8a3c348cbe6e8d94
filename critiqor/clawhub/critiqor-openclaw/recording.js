// One run of Critiqor as this process records it: its files, and whoever writes them.

import { Journal, runFiles } from "./journal.js";
import { Recorder } from "./recorder.js";
import { Records } from "./records.js";
import { SessionSummary } from "./summary.js";

/** Takes what a run is told of, until the process exits or somebody ends it. */
export class Recording {
  constructor(runId, runsDir, { makesFolder = true } = {}) {
    this.runId = runId;
    this.runsDir = runsDir;
    this.journal = new Journal(runFiles(runsDir, runId), { makesFolder });
    this.summary = new SessionSummary(runId, this.journal);
    this.records = new Records(this.journal, () => this.summary.schedule());
    this.recorder = new Recorder(this.records);
    this.announced = new Set();
    this.onExit = () => this.complete();
    allowListeners(1);
    process.once("exit", this.onExit);
  }

  /** The recording that takes what belongs to no agent run. */
  get current() {
    return this;
  }

  /** Says who is watching, once for each way in which OpenClaw has registered the plugin. */
  announce(mode, presence) {
    if (this.announced.has(mode)) return;
    this.announced.add(mode);
    if (mode === "full") this.records.hooksLive = true;
    // The first record of every process: without it, whoever reads the evidence knows that nobody was watching.
    this.records.write("recorder_attached", "extension_api", null, {}, presence);
  }

  /** Brings session.json up to the journal, at once; for the end of the process. */
  complete() {
    try {
      this.records.flush();
      if (this.journal.written > 0) this.summary.finish();
    } catch {
      // nothing may keep the agent's process from ending as it would
    }
  }

  /** Takes nothing more. What still waited is written; session.json follows in its own time, the process goes on. */
  end() {
    process.off("exit", this.onExit);
    allowListeners(-1);
    this.records.flush();
    this.journal.close();
  }
}

// OpenClaw comes close to the number of listeners at which Node warns of a leak: ours must not be the one too many.
function allowListeners(more) {
  const most = process.getMaxListeners();
  if (most > 0) process.setMaxListeners(most + more);
}
