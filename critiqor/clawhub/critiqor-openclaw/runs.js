// Finds the agent run that an event belongs to, and joins the parts that record it. Runs and reports are kept in bounded
// numbers, however many agent runs a gateway serves.

import { Attempts, Turns } from "./attempts.js";
import { increment } from "./events.js";
import { ModelCalls } from "./models.js";
import { AgentRunRecords } from "./record_writer.js";
import { ToolCalls } from "./tools.js";

/**
 * @import { Prompts } from "./prompts.js"
 * @import { RecordWriter } from "./record_writer.js"
 */

/** @typedef {{ recorded: number, bySource: Record<string, number> }} FactReports How often a fact was reported. */

const MAX_RUNS = 256;
const MAX_MESSAGES = 500;

/** What sources have reported of one agent run, so that a fact that two of them report is recorded once. */
class Reports {
  /** @type {Map<string, FactReports>} */
  #facts = new Map();
  /** @type {Set<unknown>} */
  #messages = new Set(); // ids
  /** @type {string | null} */
  #lastMark = null;

  /**
   * Whether a source is the first to report its nth occurrence of a fact.
   * @param {string} fact
   * @param {string} source
   */
  isNews(fact, source) {
    let reports = this.#facts.get(fact);
    if (reports === undefined) this.#facts.set(fact, (reports = { recorded: 0, bySource: {} }));
    const count = increment(reports.bySource, source);
    if (count <= reports.recorded) return false;
    reports.recorded = count;
    return true;
  }

  /**
   * Whether the stream delivers the same event twice, because a listener was added twice.
   * @param {OpenClaw.AgentEvent} event
   */
  isRepeated({ seq, ts, stream }) {
    if (seq === undefined) return false;
    const mark = `${seq}:${ts}:${stream}`;
    if (mark === this.#lastMark) return true;
    this.#lastMark = mark;
    return false;
  }

  /** @param {unknown} id */
  isNewMessage(id) {
    if (id === undefined) return true;
    if (this.#messages.has(id)) return false;
    this.#messages.add(id);
    if (this.#messages.size > MAX_MESSAGES) this.#messages.delete(this.#messages.values().next().value);
    return true;
  }
}

/** One agent run: its records, and the parts that write them, each with the state of what it records. */
export class AgentRun {
  /**
   * @param {RecordWriter} writer
   * @param {string} key
   * @param {string | null} id
   * @param {Prompts | null} prompts
   */
  constructor(writer, key, id, prompts) {
    this.key = key;
    this.prompts = prompts; // null unless prompts are to be recorded
    this.records = new AgentRunRecords(writer, id);
    this.reports = new Reports();
    this.tools = new ToolCalls(this.records);
    this.turns = new Turns(this.records, this.tools);
    this.models = new ModelCalls(this.records, this.turns, () => this.attempts.resume());
    this.attempts = new Attempts(this.records, this.models, this.turns);
  }

  /** Whether nothing is known to be in progress. */
  isIdle() {
    return !this.attempts.isOpen && !this.models.isOpen && !this.turns.isOpen;
  }
}

/** The agent runs whose state is kept. */
export class Runs {
  #writer;
  #prompts;

  /**
   * @param {RecordWriter} writer
   * @param {Prompts | null} [prompts]
   */
  constructor(writer, prompts = null) {
    this.#writer = writer;
    this.#prompts = prompts;
    /** @type {Map<string, AgentRun>} */
    this.byKey = new Map();
    /** @type {Map<string | null, string>} */
    this.idBySession = new Map();
  }

  /**
   * Returns the agent run that an event belongs to.
   * @param {OpenClaw.Place | null | undefined} event
   * @param {OpenClaw.Place | null} [context]
   */
  of(event, context) {
    const child = event?.childSessionKey ?? event?.targetSessionKey; // a hook about a subagent names its run
    const sessionKey = child ?? event?.sessionKey ?? context?.sessionKey ?? null;
    const id = event?.runId ?? context?.runId ?? this.idBySession.get(sessionKey) ?? null;
    const key = id ?? `session ${sessionKey}`; // events without a run must not be mixed between sessions
    let run = this.byKey.get(key);
    if (run === undefined) {
      if (this.byKey.size >= MAX_RUNS) this.#forgetOldest();
      this.byKey.set(key, (run = new AgentRun(this.#writer, key, id, this.#prompts)));
    }
    // Only the first time: a late event of an earlier run must not make it the session's current run again.
    const { records } = run;
    if (records.sessionKey === null && sessionKey !== null) {
      records.sessionKey = sessionKey;
      if (id !== null) this.idBySession.set(sessionKey, id);
    }
    return run;
  }

  // A run in progress is kept, however many came after it.
  #forgetOldest() {
    let [oldest] = this.byKey.values();
    for (const run of this.byKey.values()) {
      if (run.isIdle()) {
        oldest = run;
        break;
      }
    }
    if (oldest === undefined) return;
    const { key, records } = oldest;
    records.writeHeld();
    this.byKey.delete(key);
    if (this.idBySession.get(records.sessionKey) === records.id) this.idBySession.delete(records.sessionKey);
  }
}
