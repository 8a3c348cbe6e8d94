// Writes session.json during the run: the journal as one document, which is always valid because it is replaced
// atomically. Rewriting costs more the longer the run is, and replacing a file can wait for the disk, so the pause grows
// with the cost and its share of the process stays below a quarter of a percent. Counters come from reading the journal, never from the document itself.

import fs from "node:fs";

import { increment } from "./events.js";
import { errorCode, SEALED } from "./journal.js";

/** @import { Journal } from "./journal.js" */

/** @typedef {{ event_type: string, source_layer: string, status: unknown }} CountedEvent */

const MIN_PAUSE_MS = 250;
const PAUSE_PER_MS_OF_WORK = 400;
const CHUNK_BYTES = 1 << 18;
const LOCK_IS_STALE_AFTER_MS = 5000;
const LOCK_TRIES_AT_EXIT = 60;
// Bytes of a journal whose document is rewritten when a process exits. The document of a longer one is left as the last
// rewriting made it, and is completed by the monitor or by finalize.
const MAX_BYTES_AT_EXIT = 4 << 20;
const WRITER_AT = '{"event_id":"evt_000000000'.length;
// The beginning of the envelope as `normalizeEvent` creates it. A quote within a value is escaped.
const VALUE = String.raw`(?:null|"(?:[^"\\]|\\.)*")`;
const OWN_LINE = new RegExp(
  String.raw`^\{"event_id":${VALUE},"event_type":"([^"\\]+)","raw_event_type":${VALUE},"timestamp":${VALUE},` +
    String.raw`"source_layer":"([^"\\]+)","session_key":${VALUE},"agent_run_id":${VALUE},"tool_name":${VALUE},` +
    String.raw`"tool_call_id":${VALUE},"status":"([^"\\]+)"`,
);

/** What was counted of the journal, and up to which byte. */
class JournalCounts {
  read = 0; // bytes
  damaged = false; // whether a line must be left out, so that lines cannot be copied without parsing
  metrics = { total_events: 0, by_event_type: {}, by_source_layer: {}, error_events: 0, tool_calls: 0 };

  /** @param {CountedEvent} event */
  add(event) {
    const { metrics } = this;
    metrics.total_events += 1;
    increment(metrics.by_event_type, event.event_type);
    increment(metrics.by_source_layer, event.source_layer);
    if (event.status === "error") metrics.error_events += 1;
    if (event.event_type === "tool_call") metrics.tool_calls += 1;
  }
}

/** Keeps session.json of one run up to date with its journal. */
export class Snapshot {
  #counts = new JournalCounts();
  #pause = MIN_PAUSE_MS;

  /**
   * @param {string} runId
   * @param {Journal} journal
   */
  constructor(runId, journal) {
    this.runId = runId;
    this.journal = journal;
    this.files = journal.files;
    this.temporary = `${this.files.session}.${journal.writer}.tmp`;
    /** @type {NodeJS.Timeout | null} */
    this.timer = null;
    /** @type {Generator<undefined, boolean, undefined> | null} */
    this.rewriting = null; // the rewrite in progress
  }

  /** Schedules a rewrite of session.json. */
  schedule() {
    if (this.timer !== null || this.rewriting !== null || this.journal.sealed) return;
    this.timer = setTimeout(() => {
      this.timer = null;
      void this.rewriteInSlices();
    }, this.#pause);
    this.timer.unref();
  }

  /** Rewrites session.json in slices, so that the agent's event loop is never blocked for long. */
  async rewriteInSlices() {
    let work = 0;
    let isCurrent = false;
    try {
      if (this.journal.reopenIfGone()) this.#counts = new JournalCounts();
      const rewriting = (this.rewriting = this.#rewrite(1));
      for (;;) {
        const began = performance.now();
        const step = rewriting.next();
        work += performance.now() - began;
        if (step.done) {
          isCurrent = step.value;
          break;
        }
        await new Promise((resolve) => setImmediate(resolve));
      }
    } catch {
      this.#counts = new JournalCounts(); // the journal is not affected; the next attempt starts from its beginning
    }
    this.rewriting = null;
    this.#pause = Math.max(MIN_PAUSE_MS, work * PAUSE_PER_MS_OF_WORK);
    if (!isCurrent) this.schedule();
  }

  /** Rewrites session.json when the process exits, unless that would delay the exit. */
  finishAtExit() {
    try {
      if (fs.statSync(this.files.journal).size <= MAX_BYTES_AT_EXIT) this.finish();
      else if (this.rewriting !== null) fs.rmSync(this.temporary, { force: true });
    } catch {
      // the journal has everything
    }
  }

  /** Rewrites session.json at once. */
  finish() {
    if (this.journal.sealed && this.rewriting === null) return;
    try {
      this.rewriting?.return(false); // it writes to the same temporary file
      for (let attempt = 0, isCurrent = false; !isCurrent && attempt < 5; attempt += 1) {
        const rewriting = this.#rewrite(LOCK_TRIES_AT_EXIT);
        let step = rewriting.next();
        while (!step.done) step = rewriting.next();
        isCurrent = step.value || this.journal.sealed;
      }
    } catch {
      // the journal has everything
    }
  }

  /**
   * Returns whether the document holds the whole journal as of its replacement. With several writers, an older document
   * can replace a newer one; the writer that notices it writes again.
   * @param {number} lockTries
   */
  *#rewrite(lockTries) {
    const source = fs.openSync(this.files.journal, "r");
    try {
      const size = fs.fstatSync(source).size;
      if (size < this.#counts.read) this.#counts = new JournalCounts();
      const target = fs.openSync(this.temporary, "w", 0o600);
      try {
        fs.writeSync(target, this.#head());
        yield* this.#copyEvents(source, target, size);
        fs.writeSync(target, `\n],\n"metrics":${JSON.stringify(this.#counts.metrics)}}\n`);
      } finally {
        fs.closeSync(target);
      }
      if (this.#replace(lockTries)) return fs.fstatSync(source).size === size;
      return false;
    } finally {
      fs.closeSync(source);
      fs.rmSync(this.temporary, { force: true }); // left over if it did not replace the document, or on a full disk
    }
  }

  #head() {
    const id = JSON.stringify(this.runId);
    return `{"schema_version":"critiqor.session.v1","run_id":${id},"session_id":${id},"events":[\n`;
  }

  /**
   * @param {number} source
   * @param {number} target
   * @param {number} size
   */
  *#copyEvents(source, target, size) {
    const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
    let rest = Buffer.alloc(0);
    let first = true;
    for (let position = 0; position < size; ) {
      const count = fs.readSync(source, chunk, 0, Math.min(CHUNK_BYTES, size - position), position);
      if (count === 0) break;
      position += count;
      const bytes = rest.length > 0 ? Buffer.concat([rest, chunk.subarray(0, count)]) : chunk.subarray(0, count);
      const end = bytes.lastIndexOf(10) + 1;
      const offset = position - bytes.length;
      const events = this.#events(bytes.subarray(0, end), offset);
      rest = Buffer.from(bytes.subarray(end));
      if (events.length > 0) {
        fs.writeSync(target, first ? events : `,\n${events}`, null, "latin1");
        first = false;
      }
      yield;
    }
  }

  /**
   * Returns whole lines as members of a list. They are handled as latin1 text, so that bytes are copied unchanged without
   * decoding UTF-8.
   * @param {Buffer} lines
   * @param {number} offset
   */
  #events(lines, offset) {
    const counts = this.#counts;
    const text = lines.toString("latin1");
    const end = offset + lines.length;
    const isCounted = end <= counts.read && !counts.damaged;
    if (isCounted) return text.trimEnd().replaceAll("\n", ",\n");
    const kept = [];
    let position = offset;
    for (const line of text.split("\n")) {
      const start = position;
      position += line.length + 1;
      if (line === "") {
        if (position <= end) counts.damaged = true;
        continue;
      }
      const event = this.#parseOwnLine(line) ?? parse(line);
      if (event === null) {
        counts.damaged = true;
        continue;
      }
      kept.push(line);
      if (start >= counts.read) counts.add(event);
    }
    counts.read = Math.max(counts.read, end);
    return kept.join(",\n");
  }

  /**
   * A complete line that this process wrote is not parsed in full: parsing costs more than writing.
   * @param {string} line
   */
  #parseOwnLine(line) {
    if (this.journal.everTorn || !line.startsWith(`_${this.journal.writer}_`, WRITER_AT) || !line.endsWith("}")) return null;
    const [, event_type, source_layer, status] = OWN_LINE.exec(line) ?? [];
    return event_type === undefined || source_layer === undefined ? null : { event_type, source_layer, status };
  }

  /**
   * The lock ensures that nothing replaces a sealed document: sealing takes the lock and never releases it.
   * @param {number} tries
   */
  #replace(tries) {
    for (let attempt = 1; ; attempt += 1) {
      try {
        fs.writeFileSync(this.files.sessionLock, String(process.pid), { flag: "wx", mode: 0o600 });
        break;
      } catch (error) {
        if (errorCode(error) !== "EEXIST") throw error;
        if (this.#isSealed()) this.journal.stopAtSeal();
        if (this.journal.sealed || attempt >= tries) return false;
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
      }
    }
    try {
      fs.renameSync(this.temporary, this.files.session);
    } finally {
      fs.unlinkSync(this.files.sessionLock);
    }
    return true;
  }

  // Whether another process has sealed the run; removes a lock whose holder must be dead.
  #isSealed() {
    const lock = this.files.sessionLock;
    try {
      if (fs.readFileSync(lock, "utf8") === SEALED) return true;
      if (Date.now() - fs.statSync(lock).mtimeMs <= LOCK_IS_STALE_AFTER_MS) return false;
      // Renamed first: the run can have been sealed since the lock was read.
      const aside = `${lock}.${this.journal.writer}.tmp`;
      fs.renameSync(lock, aside);
      const sealed = fs.readFileSync(aside, "utf8") === SEALED;
      if (sealed) fs.renameSync(aside, lock);
      else fs.unlinkSync(aside);
      return sealed;
    } catch (error) {
      if (errorCode(error) !== "ENOENT") throw error;
      return false; // it was released in the meantime
    }
  }
}

/**
 * @param {string} line
 * @returns {CountedEvent | null}
 */
function parse(line) {
  try {
    const event = JSON.parse(line);
    return event !== null && typeof event === "object" && typeof event.event_type === "string" ? event : null;
  } catch {
    return null;
  }
}
