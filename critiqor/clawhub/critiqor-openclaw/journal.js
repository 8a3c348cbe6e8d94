// Appends records to the journal: one line per record and one write per line, by any number of processes at once. A record
// that could not be written leaves a gap in its writer's numbering, which shows in the evidence that it is missing; those at
// the end are in the closing record, and in the reports to the witness.

import crypto, { createHash, randomBytes } from "node:crypto";
import fs from "node:fs";
import path from "node:path";

import { ClosingRecord } from "./closing_record.js";
import { serializeRecord } from "./payload.js";
import { Redactor, RULES_DIGEST } from "./redact.js";

/**
 * @import { EventRecord } from "./events.js"
 * @import { Witness } from "./witness.js"
 */

/** @typedef {ReturnType<typeof runFiles>} RunFiles */

const RETRY_AFTER_MS = 1000;
// How long records may follow in the journal after the run was sealed by another process; they are no evidence any more.
const CHECK_SEAL_AFTER_MS = 200;
const DIGEST_LENGTH = 16;
// The last time that an event id has room for, in milliseconds since 1970. Nothing is lost if the clock is wrong: a time
// before 1970 or after this one becomes the nearest of the two.
const LAST_TIME = 36 ** 9 - 1;

const LINE_BREAK = 10;
// Encoding into one reused buffer costs a third of passing the text to writeSync.
const SCRATCH = Buffer.allocUnsafeSlow(1 << 18);

/** Content of the lock of session.json once the run is sealed. */
export const SEALED = "sealed";

/**
 * Returns the paths of the files of one run; critiqor/storage/paths.py has the same.
 * @param {string} runsDir
 * @param {string} runId
 */
export function runFiles(runsDir, runId) {
  const folder = path.join(runsDir, runId);
  return {
    folder,
    journal: path.join(folder, "journal.jsonl"),
    session: path.join(folder, "session.json"),
    sessionLock: path.join(folder, "session.json.lock"),
    redactionKey: path.join(folder, "redaction.key"),
    /** @param {string} writer */
    closingRecord: (writer) => path.join(folder, `recorder-${writer}.json`),
    redactionRules: path.join(folder, "redaction.json"),
  };
}

/**
 * Whether a name is a valid run id, which names nothing outside the runs folder.
 * @param {unknown} name
 * @returns {name is string}
 */
export function isRunId(name) {
  return typeof name === "string" && /^[\w.-]+$/.test(name) && !/^\.+$/.test(name);
}

/** Appends records to the journal of one run. Never throws, never waits. */
export class Journal {
  /** @type {{ descriptor: number, redactor: Redactor } | null} */
  #file = null;
  #makesFolder;
  #follow;
  #sequence = 0;
  #latest = 0;
  #isTorn = false;
  #closing = new ClosingRecord();
  #checkSealAt = 0;
  #idAt = NaN;
  #idTime = "";

  /**
   * @param {RunFiles} files
   * @param {{ makesFolder?: boolean, witness?: (writer: string) => Witness | null, follow?: () => void }} [options]
   *   `follow` is called when the file was opened or is found sealed: the recording may have gone on in another run
   */
  constructor(files, { makesFolder = true, witness = () => null, follow = () => {} } = {}) {
    this.files = files;
    this.writer = process.pid.toString(36) + randomBytes(2).toString("hex");
    this.written = 0;
    this.lost = 0;
    this.everTorn = false;
    this.retryAt = 0;
    this.sealed = false;
    this.witness = witness(this.writer);
    this.#makesFolder = makesFolder;
    this.#follow = follow;
    /** @type {Journal | null} */
    this.successor = null; // the journal of the next segment: once this one is closed, it takes the records
  }

  /** Returns the time for the next record: never before an earlier one or before 1970, even if the clock is set back. */
  now() {
    const now = Math.min(Date.now(), LAST_TIME);
    if (now > this.#latest) this.#latest = now;
    return this.#latest;
  }

  /**
   * Appends one record; `at` is when it happened, which can be shortly before it is written.
   * @param {EventRecord} record
   * @returns {boolean} whether it was written
   */
  append(record, at = this.now()) {
    const file = this.#open();
    if (this.sealed && this.successor !== null) return this.successor.append(record, at);
    this.#sequence += 1;
    const kept = file !== null && this.#write(file, record, at);
    if (kept) this.written += 1;
    else if (this.sealed) this.witness?.lost(this.#sequence);
    else this.#countLost();
    return kept;
  }

  /** Opens the file, if that is possible now. */
  open() {
    this.#open();
  }

  /** The version of the redaction rules that are applied to the records. */
  get redaction() {
    return this.#open()?.redactor.digest ?? RULES_DIGEST;
  }

  /**
   * Returns a text without its secrets; null if the journal cannot be opened.
   * @param {string} text
   */
  redact(text) {
    return this.#open()?.redactor.text(text) ?? null;
  }

  /** Leaves a gap in the numbering, for a fact that could not be recorded. */
  lose() {
    if (this.sealed && this.successor !== null) {
      this.successor.lose();
      return;
    }
    this.#sequence += 1;
    this.#countLost();
  }

  /** Whether nothing was written to it yet. */
  get isUnused() {
    return this.#sequence === 0;
  }

  /** Closes the journal; later records go to its successor, if there is one. */
  close() {
    this.finish();
    this.sealed = true;
    this.#release();
  }

  /** Writes the closing record. Nothing is written into a sealed run. */
  finish() {
    this.#checkSeal();
    if (!this.sealed) this.#closing.write({ writer: this.writer, produced: this.#sequence, lost: this.lost });
    this.witness?.end();
  }

  #countLost() {
    this.lost += 1;
    this.witness?.lost(this.#sequence);
  }

  /** Closes the file if it was moved or removed, so that a new one is created; returns whether it was. */
  reopenIfGone() {
    if (this.#file === null) return false;
    try {
      if (fs.statSync(this.files.journal).ino === fs.fstatSync(this.#file.descriptor).ino) return false;
    } catch {
      // it does not exist
    }
    this.#release();
    this.#isTorn = false;
    this.retryAt = 0;
    return true;
  }

  #open() {
    const now = performance.now(); // not the time of day, which can be set
    if (now >= this.#checkSealAt) this.#checkSeal();
    if (this.#file !== null) return this.#file;
    if (this.sealed || now < this.retryAt) return null;
    try {
      // The redaction key of a completed run is deleted and must not be created again.
      this.#checkSeal();
      if (this.sealed) return null;
      if (this.#makesFolder) fs.mkdirSync(this.files.folder, { recursive: true, mode: 0o700 });
      const redactor = new Redactor(sharedKey(this.files.redactionKey), readIfAny(this.files.redactionRules));
      this.#file = { redactor, descriptor: fs.openSync(this.files.journal, "a", 0o600) };
      this.#closing.reserve(this.files.closingRecord(this.writer), this.writer);
    } catch {
      this.retryAt = performance.now() + RETRY_AFTER_MS;
      return null;
    }
    // After the closing record was reserved: the process that cuts first names the next run and then looks for
    // closing records, so that one of the two sees the other.
    this.#follow();
    return this.#file;
  }

  #checkSeal() {
    this.#checkSealAt = performance.now() + CHECK_SEAL_AFTER_MS;
    if (!this.sealed && isSealed(this.files.sessionLock)) this.stopAtSeal();
  }

  /** Writes nothing any more, because the run is sealed. */
  stopAtSeal() {
    if (this.sealed) return;
    this.sealed = true;
    this.witness?.sealed();
    this.#closing.release();
    this.#release();
    this.#follow();
  }

  /**
   * @param {{ descriptor: number, redactor: Redactor }} file
   * @param {EventRecord} record
   * @param {number} at
   */
  #write({ descriptor, redactor }, record, at) {
    try {
      record.event_id = this.#eventId(at);
      const line = serializeRecord(record, redactor);
      const bytes = line.length * 3 + 2 <= SCRATCH.length ? SCRATCH : Buffer.allocUnsafe(Buffer.byteLength(line) + 2);
      const start = this.#isTorn ? 1 : 0; // the rest of a line that was not written completely is ended first
      bytes[0] = LINE_BREAK;
      const end = start + bytes.write(line, start);
      bytes[end] = LINE_BREAK;
      // Before the write: a process that is killed in between then has one record too few, and never one too many.
      if (this.witness?.isPresent) this.witness.record(this.#sequence, digestOf(bytes.subarray(start, end)));
      this.#isTorn = true; // until the write is known to be complete: a failed write can leave some bytes
      this.#isTorn = fs.writeSync(descriptor, bytes, 0, end + 1) <= end;
      this.everTorn ||= this.#isTorn;
      return !this.#isTorn;
    } catch {
      this.everTorn ||= this.#isTorn;
      return false;
    }
  }

  /**
   * Returns an id that sorts by time, then writer, then the writer's sequence number.
   * @param {number} at
   */
  #eventId(at) {
    if (at !== this.#idAt) {
      this.#idAt = at; // many records have the same millisecond
      this.#idTime = Math.floor(Math.min(Math.max(at, 0), LAST_TIME)).toString(36).padStart(9, "0");
    }
    return `evt_${this.#idTime}_${this.writer}_${this.#sequence.toString(36).padStart(5, "0")}`;
  }

  #release() {
    try {
      if (this.#file !== null) fs.closeSync(this.#file.descriptor);
    } catch {
      // the descriptor is unusable either way
    }
    this.#file = null;
  }
}

/**
 * Returns the code of an error of the file system, such as `ENOENT`.
 * @param {unknown} error
 */
export function errorCode(error) {
  return error instanceof Error && "code" in error ? error.code : undefined;
}

/**
 * Node before 20.12 has no `crypto.hash`, which takes two thirds of the time.
 * @type {(bytes: Buffer) => string}
 */
const sha256 =
  typeof crypto.hash === "function"
    ? (bytes) => crypto.hash("sha256", bytes, "hex")
    : (bytes) => createHash("sha256").update(bytes).digest("hex");

/**
 * Returns the digest of a line without its line breaks.
 * @param {Buffer} line
 */
function digestOf(line) {
  return sha256(line).slice(0, DIGEST_LENGTH);
}

/** @param {string} file */
function readIfAny(file) {
  try {
    return fs.readFileSync(file, "utf8");
  } catch (error) {
    if (errorCode(error) === "ENOENT") return null;
    throw error; // nothing is recorded without the rules that the user has added
  }
}

/** @param {string} lock */
function isSealed(lock) {
  try {
    return fs.readFileSync(lock, "utf8") === SEALED;
  } catch {
    return false; // it does not exist, or it cannot be read, in which case nothing can be written either
  }
}

/**
 * @param {string} from
 * @param {string} to
 */
function linkOrRename(from, to) {
  try {
    fs.linkSync(from, to);
  } catch (error) {
    if (errorCode(error) !== "EEXIST") fs.renameSync(from, to); // a disk without links
  }
}

/**
 * Processes of one run must agree on the key and may start at the same time: the first one to link its file wins.
 * @param {string} file
 */
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
