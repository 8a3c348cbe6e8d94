// What the recorder remembers of one agent run, so that the same fact from two sources is written once. Bounded: a run
// forgets its oldest finished calls and messages.

const MOST_CALLS = 2000;
const MOST_MESSAGES = 500;

/** One run of an agent: its open calls, its turn, and how often each source has told of each fact. */
export class RunState {
  constructor(id, sessionKey) {
    this.id = id;
    this.sessionKey = sessionKey;
    this.tools = new Map();
    this.messages = new Set();
    this.told = new Map();
    this.turns = 0;
    this.turn = null;
    this.attempts = 0;
    this.attempt = null;
    this.model = null; // the model call that is under way
    this.modelSource = null;
    this.pending = null; // the response that waits for its usage or its error
    this.response = null; // the timer that ends this wait
    this.lastModelError = null;
    this.prompt = null;
    this.partial = null;
    this.sawMessage = false;
    this.outputTokens = 0;
    this.lastMark = null;
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
      this.tools.set(id, (calls = { list: [], starts: {}, ends: {} }));
      if (this.tools.size > MOST_CALLS) this.forgetFinished();
    }
    return calls;
  }

  /** The call that another source has already told of, or null when this start is news. */
  toolStarted(source, id) {
    const calls = this.callsOf(id);
    const count = (calls.starts[source] = (calls.starts[source] ?? 0) + 1);
    return calls.list[count - 1] ?? null;
  }

  addTool(id, name, args, at) {
    const call = { id, name, args, at, endedAt: null, written: false, wait: null, hasOutput: false, updates: 0, result: {} };
    this.callsOf(id).list.push(call);
    return call;
  }

  /** The call that this end belongs to, or null when nothing has told of its start. */
  toolEnded(source, id) {
    const calls = this.callsOf(id);
    const count = (calls.ends[source] = (calls.ends[source] ?? 0) + 1);
    return calls.list[count - 1] ?? null;
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
