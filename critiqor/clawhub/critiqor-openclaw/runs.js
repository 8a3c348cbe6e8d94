// What the recorder remembers of agent runs, so that the same fact from two sources is written once. Bounded: a run
// forgets its oldest finished calls and messages, and of every finished call what it was given and what it gave.

const MOST_RUNS = 256;
const MOST_CALLS = 2000;
const MOST_MESSAGES = 500;
const MOST_WITHOUT_USAGE = 50;
const MOST_CALLS_OF_ONE_ID = 64;

/** One run of an agent: its open calls, its turn, and how often each source has told of each fact. */
export class RunState {
  constructor(key, id) {
    this.key = key;
    this.id = id; // null where OpenClaw names none
    this.sessionKey = null;
    this.tools = new Map();
    this.ending = new Set(); // calls whose result waits for a richer source
    this.messages = new Set();
    this.told = new Map();
    this.turns = 0;
    this.turn = null;
    this.attempts = 0;
    this.attempt = null;
    this.model = null; // the model call that is under way
    this.modelSource = null; // who tells of the model calls of this run
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

  /** Whether nothing is known to be under way. */
  isIdle() {
    return this.attempt === null && this.model === null && this.turn === null;
  }

  /** Whether this source is the first to tell of its nth occurrence of a fact. */
  isNews(fact, source) {
    let told = this.told.get(fact);
    if (told === undefined) this.told.set(fact, (told = { recorded: 0, by: {} }));
    const count = (told.by[source] = (told.by[source] ?? 0) + 1);
    if (count <= told.recorded) return false;
    told.recorded = count;
    return true;
  }

  /** Whether the stream has delivered this very event before (a listener that was added twice). */
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
    if (this.messages.size > MOST_MESSAGES) this.messages.delete(this.messages.values().next().value);
    return true;
  }

  /** The prompt facts of this attempt, once: they belong to its first request. */
  takePrompt() {
    const prompt = this.prompt;
    this.prompt = null;
    return prompt ?? {};
  }

  /** Remembers a model call that did not say what it used, until the end of the attempt may tell. */
  noteWithoutUsage(from, until) {
    if (this.withoutUsage.length < MOST_WITHOUT_USAGE) this.withoutUsage.push({ turn: this.turn?.number, from, until });
  }

  takeWithoutUsage() {
    return this.withoutUsage.splice(0);
  }

  /** Output tokens of one call, from the stream's count over the whole run. */
  outputSince(total) {
    if (typeof total !== "number") return undefined;
    const since = Math.max(0, total - this.outputTokens);
    this.outputTokens = total;
    return since;
  }

  // Ids repeat (a model server may reuse `call_0`, and retries do), so the nth start of an id belongs to its nth end.

  callsOf(id) {
    let calls = this.tools.get(id);
    if (calls === undefined) {
      if (this.tools.size >= MOST_CALLS) this.forgetFinished();
      this.tools.set(id, (calls = { list: [], forgotten: 0, starts: {}, ends: {} }));
    }
    return calls;
  }

  /** The call that another source has already told of, or null when this start is news. */
  toolStarted(source, id) {
    const calls = this.callsOf(id);
    const count = (calls.starts[source] = (calls.starts[source] ?? 0) + 1);
    return nth(calls, count);
  }

  addTool(id, name, args, at) {
    const call = { id, name, args, at, endedAt: null, written: false, wait: null, hasOutput: false, updates: 0, result: {} };
    const calls = this.callsOf(id);
    calls.list.push(call);
    if (calls.list.length > MOST_CALLS_OF_ONE_ID) {
      calls.list.shift();
      calls.forgotten += 1;
    }
    return call;
  }

  /** The call that this end belongs to, or null when nothing has told of its start. */
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

/** The runs that are remembered: few of them, whatever a gateway serves. */
export class Runs {
  constructor(records) {
    this.records = records;
    this.byKey = new Map();
    this.idBySession = new Map();
  }

  /** The run that an event belongs to. */
  of(event, context) {
    const child = event?.childSessionKey ?? event?.targetSessionKey; // a hook about a subagent names its run
    const sessionKey = child ?? event?.sessionKey ?? context?.sessionKey ?? null;
    const id = event?.runId ?? context?.runId ?? this.idBySession.get(sessionKey) ?? null;
    const key = id ?? `session ${sessionKey}`; // what belongs to no run must not be mixed between sessions
    let run = this.byKey.get(key);
    if (run === undefined) {
      if (this.byKey.size >= MOST_RUNS) this.forgetOldest();
      this.byKey.set(key, (run = new RunState(key, id)));
    }
    // Only the first time: a late word of an earlier run must not make it the session's current one again.
    if (run.sessionKey === null && sessionKey !== null) {
      run.sessionKey = sessionKey;
      if (id !== null) this.idBySession.set(sessionKey, id);
    }
    return run;
  }

  // A run that is still under way is kept, however many came after it.
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

// Counted from the first that is still remembered: a source that has fallen behind tells of calls that are over.
function nth({ list, forgotten }, count) {
  return list[Math.max(0, count - 1 - forgotten)] ?? null;
}
