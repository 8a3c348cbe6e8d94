// session.json while the run goes on: the journal as one document, valid at every instant because it is only ever
// replaced whole. Rewriting costs more the longer the run is, so the pause grows with the cost and its share of the
// process stays below a hundredth. Counters come from reading the journal, never from the document itself.

import fs from "node:fs";

import { SEALED } from "./journal.js";

const SOONEST_MS = 250;
const PAUSE_PER_MS_OF_WORK = 100;
const CHUNK_BYTES = 1 << 18;
const LOCK_IS_STALE_AFTER_MS = 5000;
const LOCK_TRIES_AT_EXIT = 60;
const WRITER_AT = '{"event_id":"evt_000000000'.length;
// The envelope as `normalizeEvent` makes it, as far as it is counted. A quote within a value is escaped.
const VALUE = String.raw`(?:null|"(?:[^"\\]|\\.)*")`;
const OWN_LINE = new RegExp(
  String.raw`^\{"event_id":${VALUE},"event_type":"([^"\\]+)","raw_event_type":${VALUE},"timestamp":${VALUE},` +
    String.raw`"source_layer":"([^"\\]+)","session_key":${VALUE},"agent_run_id":${VALUE},"tool_name":${VALUE},` +
    String.raw`"tool_call_id":${VALUE},"status":"([^"\\]+)"`,
);

/** Keeps session.json of one run up with its journal. */
export class SessionSummary {
  constructor(runId, journal) {
    this.runId = runId;
    this.journal = journal;
    this.files = journal.files;
    this.temporary = `${this.files.session}.${journal.writer}.tmp`;
    this.timer = null;
    this.rewriting = null; // the rewrite that is under way, a slice at a time
    this.pause = SOONEST_MS;
    this.forget();
  }

  forget() {
    this.read = 0; // journal bytes already counted
    this.damaged = false; // whether any line must be left out, so that lines cannot be copied unread
    this.metrics = { total_events: 0, by_event_type: {}, by_source_layer: {}, error_events: 0, tool_calls: 0 };
  }

  /** Asks for session.json to follow soon. */
  schedule() {
    if (this.timer !== null || this.rewriting !== null || this.journal.sealed) return;
    this.timer = setTimeout(() => {
      this.timer = null;
      void this.follow();
    }, this.pause);
    this.timer.unref();
  }

  /** Rewrites session.json in slices, so that the agent's event loop is never held for long. */
  async follow() {
    let work = 0;
    let current = false;
    try {
      if (this.journal.reopenIfGone()) this.forget();
      this.rewriting = this.rewrite(1);
      for (let step = { done: false }; !step.done; ) {
        const began = performance.now();
        step = this.rewriting.next();
        work += performance.now() - began;
        if (step.done) current = step.value;
        else await new Promise((resolve) => setImmediate(resolve));
      }
    } catch {
      this.forget(); // the journal remains; the next attempt starts afresh
    }
    this.rewriting = null;
    this.pause = Math.max(SOONEST_MS, work * PAUSE_PER_MS_OF_WORK);
    if (!current) this.schedule();
  }

  /** Rewrites session.json at once; for the end of the process. */
  finish() {
    if (this.journal.sealed && this.rewriting === null) return;
    try {
      this.rewriting?.return(); // it writes to the same temporary file
      for (let attempt = 0, current = false; !current && attempt < 5; attempt += 1) {
        const rewriting = this.rewrite(LOCK_TRIES_AT_EXIT);
        let step = rewriting.next();
        while (!step.done) step = rewriting.next();
        current = step.value || this.journal.sealed;
      }
    } catch {
      // the journal has it all
    }
  }

  // Returns whether the document holds the whole journal as it was when the document took its place: with several
  // writers, an older view can overtake a newer one, and whoever sees that writes again.
  *rewrite(lockTries) {
    const source = fs.openSync(this.files.journal, "r");
    try {
      const size = fs.fstatSync(source).size;
      if (size < this.read) this.forget();
      const target = fs.openSync(this.temporary, "w", 0o600);
      try {
        fs.writeSync(target, this.head());
        yield* this.copyEvents(source, target, size);
        fs.writeSync(target, `\n],"metrics":${JSON.stringify(this.metrics)}}\n`);
      } finally {
        fs.closeSync(target);
      }
      if (this.replace(lockTries)) return fs.fstatSync(source).size === size;
      fs.unlinkSync(this.temporary);
      return false;
    } finally {
      fs.closeSync(source);
    }
  }

  head() {
    const id = JSON.stringify(this.runId);
    return `{"schema_version":"critiqor.session.v1","run_id":${id},"session_id":${id},"events":[\n`;
  }

  *copyEvents(source, target, size) {
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
      const events = this.events(bytes.subarray(0, end), offset);
      rest = Buffer.from(bytes.subarray(end));
      if (events.length > 0) {
        fs.writeSync(target, first ? events : `,\n${events}`, null, "latin1");
        first = false;
      }
      yield;
    }
  }

  // Lines as latin1 text, so that bytes come out as they went in whatever they encode, without decoding them.
  events(lines, offset) {
    const text = lines.toString("latin1");
    const end = offset + lines.length;
    const known = end <= this.read && !this.damaged;
    if (known) return text.trimEnd().replaceAll("\n", ",\n");
    const kept = [];
    let position = offset;
    for (const line of text.split("\n")) {
      const start = position;
      position += line.length + 1;
      if (line === "") {
        if (position <= end) this.damaged = true;
        continue;
      }
      const event = this.own(line) ?? parse(line);
      if (event === null) {
        this.damaged = true;
        continue;
      }
      kept.push(line);
      if (start >= this.read) this.count(event);
    }
    this.read = Math.max(this.read, end);
    return kept.join(",\n");
  }

  // What this process has written itself, and whole, need not be parsed to be counted: that costs more than writing it.
  own(line) {
    if (this.journal.everTorn || !line.startsWith(`_${this.journal.writer}_`, WRITER_AT) || !line.endsWith("}")) return null;
    const found = OWN_LINE.exec(line);
    return found === null ? null : { event_type: found[1], source_layer: found[2], status: found[3] };
  }

  count(event) {
    const metrics = this.metrics;
    metrics.total_events += 1;
    metrics.by_event_type[event.event_type] = (metrics.by_event_type[event.event_type] ?? 0) + 1;
    metrics.by_source_layer[event.source_layer] = (metrics.by_source_layer[event.source_layer] ?? 0) + 1;
    if (event.status === "error") metrics.error_events += 1;
    if (event.event_type === "tool_call") metrics.tool_calls += 1;
  }

  // The lock makes sure that nothing replaces a sealed document: whoever seals takes it and keeps it.
  replace(tries) {
    for (let attempt = 1; ; attempt += 1) {
      try {
        fs.writeFileSync(this.files.sessionLock, String(process.pid), { flag: "wx", mode: 0o600 });
        break;
      } catch (error) {
        if (error.code !== "EEXIST") throw error;
        this.journal.sealed = this.isSealed();
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

  // Looks at the lock of another, and drops it when its holder must be dead.
  isSealed() {
    const lock = this.files.sessionLock;
    try {
      if (fs.readFileSync(lock, "utf8") === SEALED) return true;
      if (Date.now() - fs.statSync(lock).mtimeMs <= LOCK_IS_STALE_AFTER_MS) return false;
      // Moved aside first: whoever seals can have taken it since it was read.
      const aside = `${lock}.${this.journal.writer}.tmp`;
      fs.renameSync(lock, aside);
      const sealed = fs.readFileSync(aside, "utf8") === SEALED;
      if (sealed) fs.renameSync(aside, lock);
      else fs.unlinkSync(aside);
      return sealed;
    } catch (error) {
      if (error.code !== "ENOENT") throw error;
      return false; // its holder has let go of it meanwhile
    }
  }
}

function parse(line) {
  try {
    const event = JSON.parse(line);
    return event !== null && typeof event === "object" && typeof event.event_type === "string" ? event : null;
  } catch {
    return null;
  }
}
