// Keeps the state of agent runs, so that a fact that two sources report is written once. The state is bounded: a run drops
// its oldest finished calls and messages, and the arguments and result of every finished call.

const MAX_RUNS = 256;
const MAX_CALLS = 2000;
const MAX_MESSAGES = 500;
const MAX_WITHOUT_USAGE = 50;
const MAX_CALLS_PER_ID = 64;

/** One agent run: its open calls, its turn, and how often each source has reported each fact. */
export class RunState {
  constructor(key, id) {
    this.key = key;
    this.id = id; // null if OpenClaw gives none
    this.sessionKey = null;
    this.tools = new Map();
    this.ending = new Set(); // calls whose result waits for a source that reports more
    this.messages = new Set();
    this.reported = new Map(); // by fact
    this.turns = 0;
    this.turn = null;
    this.attempts = 0;
    this.attempt = null;
    this.model = null; // the model call in progress
    this.modelSource = null; // the source that reports the model calls of this run
    this.pending = null; // the response that waits for its usage or its error
    this.response = null; // the timer that ends this wait
    this.lastModelError = null;
    this.prompt = null;
    this.partial = null;
    this.sawMessage = false;
    this.outputTokens = 0;
    this.withoutUsage = [];
    this.lastMark = null;
  }

  /** Whether nothing is known to be in progress. */
  isIdle() {
    return this.attempt === null && this.model === null && this.turn === null;
  }

  /** Whether this source is the first to report its nth occurrence of a fact. */
  isNews(fact, source) {
    let reports = this.reported.get(fact);
    if (reports === undefined) this.reported.set(fact, (reports = { recorded: 0, by: {} }));
    const count = (reports.by[source] = (reports.by[source] ?? 0) + 1);
    if (count <= reports.recorded) return false;
    reports.recorded = count;
    return true;
  }

  /** Whether the stream delivers the same event twice, because a listener was added twice. */
  isRepeated({ seq, ts, stream }) {
    if (seq === undefined) return false;
    const mark = `${seq}:${ts}:${stream}`;
    if (mark === this.lastMark) return true;
    this.lastMark = mark;
    return false;
  }

  isNewMessage(id) {
    if (id === undefined) return true;
    if (this.messages.has(id)) return false;
    this.messages.add(id);
    if (this.messages.size > MAX_MESSAGES) this.messages.delete(this.messages.values().next().value);
    return true;
  }

  /** Returns the prompt facts of this attempt once: they belong to its first request. */
  takePrompt() {
    const prompt = this.prompt;
    this.prompt = null;
    return prompt ?? {};
  }

  /** Remembers a model call without usage; the end of the attempt may report it. */
  noteWithoutUsage(from, until) {
    if (this.withoutUsage.length < MAX_WITHOUT_USAGE) this.withoutUsage.push({ turn: this.turn?.number, from, until });
  }

  takeWithoutUsage() {
    return this.withoutUsage.splice(0);
  }

  /** Returns the output tokens of one call, from the stream's total over the whole run. */
  outputSince(total) {
    if (typeof total !== "number") return undefined;
    const since = Math.max(0, total - this.outputTokens);
    this.outputTokens = total;
    return since;
  }

  // Ids repeat (a model server may reuse `call_0`, and retries do), so the nth end of an id belongs to its nth start.

  callsOf(id) {
    let calls = this.tools.get(id);
    if (calls === undefined) {
      if (this.tools.size >= MAX_CALLS) this.forgetFinished();
      this.tools.set(id, (calls = { list: [], forgotten: 0, starts: {}, ends: {} }));
    }
    return calls;
  }

  /** Returns the call if another source has already reported its start, else null. */
  toolStarted(source, id) {
    const calls = this.callsOf(id);
    const count = (calls.starts[source] = (calls.starts[source] ?? 0) + 1);
    return nth(calls, count);
  }

  addTool(id, name, args, at) {
    const call = { id, name, args, at, endedAt: null, written: false, wait: null, hasOutput: false, updates: 0, result: {} };
    const calls = this.callsOf(id);
    calls.list.push(call);
    if (calls.list.length > MAX_CALLS_PER_ID) {
      calls.list.shift();
      calls.forgotten += 1;
    }
    return call;
  }

  /** Returns the call that this end belongs to, or null if no source has reported its start. */
  toolEnded(source, id) {
    const calls = this.callsOf(id);
    const count = (calls.ends[source] = (calls.ends[source] ?? 0) + 1);
    return nth(calls, count);
  }

  toolUpdated(id) {
    const call = this.latestTool(id);
    if (call) call.updates += 1;
  }

  latestTool(id) {
    return this.tools.get(id)?.list.at(-1) ?? null;
  }

  forgetFinished() {
    for (const [id, calls] of this.tools) {
      if (calls.list.every((call) => call.written)) {
        this.tools.delete(id);
        return;
      }
    }
    this.tools.delete(this.tools.keys().next().value);
  }
}

/** The agent runs whose state is kept: a bounded number, however many a gateway serves. */
export class Runs {
  constructor(records) {
    this.records = records;
    this.byKey = new Map();
    this.idBySession = new Map();
  }

  /** Returns the agent run that an event belongs to. */
  of(event, context) {
    const child = event?.childSessionKey ?? event?.targetSessionKey; // a hook about a subagent names its run
    const sessionKey = child ?? event?.sessionKey ?? context?.sessionKey ?? null;
    const id = event?.runId ?? context?.runId ?? this.idBySession.get(sessionKey) ?? null;
    const key = id ?? `session ${sessionKey}`; // events without a run must not be mixed between sessions
    let run = this.byKey.get(key);
    if (run === undefined) {
      if (this.byKey.size >= MAX_RUNS) this.forgetOldest();
      this.byKey.set(key, (run = new RunState(key, id)));
    }
    // Only the first time: a late event of an earlier run must not make it the session's current run again.
    if (run.sessionKey === null && sessionKey !== null) {
      run.sessionKey = sessionKey;
      if (id !== null) this.idBySession.set(sessionKey, id);
    }
    return run;
  }

  // A run in progress is kept, however many came after it.
  forgetOldest() {
    let oldest = this.byKey.values().next().value;
    for (const run of this.byKey.values()) {
      if (run.isIdle()) {
        oldest = run;
        break;
      }
    }
    this.records.settle(oldest.response);
    this.byKey.delete(oldest.key);
    if (this.idBySession.get(oldest.sessionKey) === oldest.id) this.idBySession.delete(oldest.sessionKey);
  }
}

// Counted from the first call that is still kept: a source that is behind reports calls that were dropped.
function nth({ list, forgotten }, count) {
  return list[Math.max(0, count - 1 - forgotten)] ?? null;
}
