// Appends records to the journal: one line per record and one write per line, by any number of processes at once. A record
// that could not be written leaves a gap in its writer's numbering, which shows in the evidence that it is missing.

import { randomBytes } from "node:crypto";
import fs from "node:fs";
import path from "node:path";

import { serializeRecord } from "./payload.js";
import { Redactor } from "./redact.js";

const RETRY_AFTER_MS = 1000;

/** Content of the lock of session.json once the run is sealed. */
export const SEALED = "sealed";

/** Returns the paths of the files of one run; critiqor/storage/paths.py has the same. */
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

/** Whether a name is a valid run id, which names nothing outside the runs folder. */
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

  /** Returns the time for the next record: never before an earlier one, even if the clock is set back. */
  now() {
    this.latest = Math.max(this.latest, Date.now());
    return this.latest;
  }

  /** Appends one record; `at` is when it happened, which can be shortly before it is written. */
  append(record, at = this.now()) {
    const ready = this.ready();
    if (this.sealed) return false;
    this.sequence += 1;
    const kept = ready && this.write(record, at);
    if (kept) this.written += 1;
    else this.lost += 1;
    return kept;
  }

  /** Leaves a gap in the numbering, for a fact that could not be recorded. */
  lose() {
    this.sequence += 1;
    this.lost += 1;
  }

  write(record, at) {
    try {
      record.event_id = this.eventId(at);
      const line = serializeRecord(record, this.redactor);
      const bytes = encode(this.torn ? `\n${line}\n` : `${line}\n`);
      this.torn = true; // until the write is known to be complete: a failed write can leave some bytes
      this.torn = fs.writeSync(this.descriptor, bytes, 0, bytes.length) < bytes.length;
      this.everTorn ||= this.torn;
      return !this.torn;
    } catch {
      this.everTorn ||= this.torn;
      return false;
    }
  }

  /** Returns an id that sorts by time, then writer, then the writer's sequence number. */
  eventId(at) {
    return `evt_${at.toString(36).padStart(9, "0")}_${this.writer}_${this.sequence.toString(36).padStart(5, "0")}`;
  }

  ready() {
    if (this.descriptor !== null) return true;
    if (this.sealed || Date.now() < this.retryAt) return false;
    try {
      // The redaction key of a completed run is deleted and must not be created again.
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

  /** Closes the journal; later records are dropped. */
  close() {
    this.sealed = true;
    this.release();
  }

  /** Closes the file if it was moved or removed, so that a new one is created; returns whether it was. */
  reopenIfGone() {
    if (this.descriptor === null) return false;
    try {
      if (fs.statSync(this.files.journal).ino === fs.fstatSync(this.descriptor).ino) return false;
    } catch {
      // it does not exist
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
      // the descriptor is unusable either way
    }
    this.descriptor = null;
  }
}

function isSealed(lock) {
  try {
    return fs.readFileSync(lock, "utf8") === SEALED;
  } catch {
    return false; // it does not exist, or it cannot be read, in which case nothing can be written either
  }
}

// Encoding into one reused buffer costs a third of passing the text to writeSync.
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

// Processes of one run must agree on the key and may start at the same time: the first one to link its file wins.
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
