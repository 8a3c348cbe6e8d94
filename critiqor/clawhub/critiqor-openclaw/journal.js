// The journal: one line a record, appended with one write, by any number of processes at once. A record that could not
// be written leaves a hole in its writer's numbering, which is how the reader of the evidence learns that it is missing.

import { randomBytes } from "node:crypto";
import fs from "node:fs";
import path from "node:path";

import { serialise } from "./payload.js";
import { Redactor } from "./redact.js";

const RETRY_AFTER_MS = 1000;

/** What the lock of session.json holds once the run is completed. */
export const SEALED = "sealed";

/** Where the files of one run are, as `critiqor.storage.paths` has them. */
export function runFiles(runsDir, runId) {
  const folder = path.join(runsDir, runId);
  return {
    folder,
    journal: path.join(folder, "journal.jsonl"),
    session: path.join(folder, "session.json"),
    sessionLock: path.join(folder, "session.json.lock"),
    redactionKey: path.join(folder, "redaction.key"),
  };
}

/** Whether a name can be that of a run, and of nothing outside its runs folder. */
export function isRunId(name) {
  return typeof name === "string" && /^[\w.-]+$/.test(name) && !/^\.+$/.test(name);
}

/** Appends records to the journal of one run. Never throws, never waits. */
export class Journal {
  constructor(files, { makesFolder = true } = {}) {
    this.files = files;
    this.makesFolder = makesFolder;
    this.writer = process.pid.toString(36) + randomBytes(2).toString("hex");
    this.written = 0;
    this.lost = 0;
    this.sequence = 0;
    this.latest = 0;
    this.descriptor = null;
    this.redactor = null;
    this.torn = false;
    this.everTorn = false;
    this.retryAt = 0;
    this.sealed = false;
  }

  /** The time for the next record: never before one already given, even when the clock steps back. */
  now() {
    this.latest = Math.max(this.latest, Date.now());
    return this.latest;
  }

  /** Writes one record; `at` is when it happened, which can be a little before it is written. */
  append(record, at = this.now()) {
    const ready = this.ready();
    if (this.sealed) return false;
    this.sequence += 1;
    const kept = ready && this.write(record, at);
    if (kept) this.written += 1;
    else this.lost += 1;
    return kept;
  }

  /** Leaves a hole in the numbering, for a fact that never became a record. */
  lose() {
    this.sequence += 1;
    this.lost += 1;
  }

  write(record, at) {
    try {
      record.event_id = this.eventId(at);
      const line = serialise(record, this.redactor);
      const bytes = encode(this.torn ? `\n${line}\n` : `${line}\n`);
      this.torn = true; // until it is known to be whole: a failed write can still have left some bytes
      this.torn = fs.writeSync(this.descriptor, bytes, 0, bytes.length) < bytes.length;
      this.everTorn ||= this.torn;
      return !this.torn;
    } catch {
      this.everTorn ||= this.torn;
      return false;
    }
  }

  /** Ids sort in the order of what they name: time, then writer, then the writer's own count. */
  eventId(at) {
    return `evt_${at.toString(36).padStart(9, "0")}_${this.writer}_${this.sequence.toString(36).padStart(5, "0")}`;
  }

  ready() {
    if (this.descriptor !== null) return true;
    if (this.sealed || Date.now() < this.retryAt) return false;
    try {
      // A completed run has no redaction key any more, and must not get another.
      this.sealed = isSealed(this.files.sessionLock);
      if (this.sealed) return false;
      if (this.makesFolder) fs.mkdirSync(this.files.folder, { recursive: true, mode: 0o700 });
      this.redactor = new Redactor(sharedKey(this.files.redactionKey));
      this.descriptor = fs.openSync(this.files.journal, "a", 0o600);
      return true;
    } catch {
      this.retryAt = Date.now() + RETRY_AFTER_MS;
      return false;
    }
  }

  /** Takes no more records. */
  close() {
    this.sealed = true;
    this.release();
  }

  /** Starts a new file when the one being written was moved or removed under us; says whether it was. */
  reopenIfGone() {
    if (this.descriptor === null) return false;
    try {
      if (fs.statSync(this.files.journal).ino === fs.fstatSync(this.descriptor).ino) return false;
    } catch {
      // not there: opened anew below
    }
    this.release();
    this.torn = false;
    this.retryAt = 0;
    return true;
  }

  release() {
    try {
      if (this.descriptor !== null) fs.closeSync(this.descriptor);
    } catch {
      // it is gone either way
    }
    this.descriptor = null;
  }
}

function isSealed(lock) {
  try {
    return fs.readFileSync(lock, "utf8") === SEALED;
  } catch {
    return false; // not there, or not to be read: whatever keeps it from being read keeps the rest from being written
  }
}

// Encoding into one buffer that is used again is a third of the cost of handing the text to writeSync.
const SCRATCH = Buffer.allocUnsafeSlow(1 << 18);

function encode(text) {
  if (text.length * 3 > SCRATCH.length) return Buffer.from(text);
  return SCRATCH.subarray(0, SCRATCH.write(text, 0));
}

function linkOrRename(from, to) {
  try {
    fs.linkSync(from, to);
  } catch (error) {
    if (error.code !== "EEXIST") fs.renameSync(from, to); // a disk without links
  }
}

// Processes of one run must agree on the key, and may start together: whoever links its file first has made it.
function sharedKey(file) {
  try {
    return fs.readFileSync(file);
  } catch {
    const mine = `${file}.${process.pid}.${randomBytes(4).toString("hex")}`;
    try {
      fs.writeFileSync(mine, randomBytes(32).toString("hex"), { mode: 0o600 });
      linkOrRename(mine, file);
    } finally {
      fs.rmSync(mine, { force: true });
    }
    return fs.readFileSync(file);
  }
}
