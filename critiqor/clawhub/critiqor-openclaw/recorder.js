// From what OpenClaw emits to facts, each recorded once. The same fact arrives from up to three sources: typed hooks,
// the agent event stream, and (on an OpenClaw that has them) the documented names. Hooks say more, streams are there
// in every mode. Starts are written at once; ends wait a moment for the richer source where one is expected.

import { copyOf, errorText, isMemoryTool, memoryLookup, normalizeEvent } from "./events.js";
import { errorOf, messageFacts, modelFacts, outcomeOf, promptFacts, recoveredUsage, responseFacts, stripUndefined } from "./facts.js";
import { RunState } from "./runs.js";

const EXTENSION = "extension_api";
const TOOLS = "tool_hooks";
const MOST_RUNS = 256;
const WAIT_FOR_HOOK_MS = 250;
const WAIT_FOR_USAGE_MS = 500;
const WAIT_FOR_TOTALS_MS = 250;

/** Hooks that stand for themselves: recorded under their own name. */
export const PLAIN_HOOKS = [
  "session_start", "session_end", "message_received", "message_sent", "gateway_start", "gateway_stop", "before_reset",
  "subagent_spawned", "subagent_ended",
];

// Documented names of what a transcript update also tells.
const SAVED_MESSAGES = new Set(["input", "message_end"]);

/** Turns source events into records of one run of Critiqor. */
export class Recorder {
  constructor(journal) {
    this.journal = journal;
    this.hooksLive = false;
    this.runs = new Map();
    this.runBySession = new Map();
    this.waiting = new Set();
    this.handlerErrors = 0;
  }

  // ── writing ──

  /** Writes one record. `known` becomes this call's: it is completed here. */
  write(eventType, layer, run, known, payload) {
    const at = (known.at ??= this.journal.now());
    known.status ??= "ok";
    known.error ??= null;
    if (run !== null) {
      known.agentRunId = run.id;
      known.sessionKey = run.sessionKey;
      if (run.turn !== null && at > run.turn.lastAt) run.turn.lastAt = at;
    }
    this.journal.append(normalizeEvent(eventType, payload, layer, known), at);
    this.onWrite?.();
  }

  /** When something began that took so long until now; now, where that cannot be. */
  before(durationMs = 0) {
    const now = this.journal.now();
    return now - durationMs > 0 ? now - durationMs : now;
  }

  later(milliseconds, action) {
    const entry = { action, timer: null };
    entry.timer = setTimeout(() => this.settle(entry), milliseconds);
    entry.timer.unref();
    this.waiting.add(entry);
    return entry;
  }

  // Also called by a timer, where an error would end the agent's process.
  settle(entry) {
    if (!entry || !this.waiting.delete(entry)) return;
    clearTimeout(entry.timer);
    try {
      entry.action();
    } catch {
      this.failed();
    }
  }

  /** Counts a fact that could not be made into a record; its absence can be seen in the journal. */
  failed() {
    this.handlerErrors += 1;
    this.journal.lose();
  }

  /** Writes everything that still waits for a richer source. */
  flush() {
    for (const entry of [...this.waiting]) this.settle(entry);
  }

  // ── runs ──

  run(event, context) {
    const child = event?.childSessionKey ?? event?.targetSessionKey; // a hook about a subagent names its run
    const sessionKey = child ?? event?.sessionKey ?? context?.sessionKey ?? null;
    const id = event?.runId ?? context?.runId ?? this.runBySession.get(sessionKey) ?? null;
    const key = id ?? `session ${sessionKey}`; // what belongs to no run must not be mixed between sessions
    let run = this.runs.get(key);
    if (run === undefined) {
      if (this.runs.size >= MOST_RUNS) this.forgetOldest();
      this.runs.set(key, (run = new RunState(key, id)));
    }
    // Only the first time: a late word of an earlier run must not make it the session's current one again.
    if (run.sessionKey === null && sessionKey !== null) {
      run.sessionKey = sessionKey;
      if (id !== null) this.runBySession.set(sessionKey, id);
    }
    return run;
  }

  // A run that is still under way is kept, however many came after it.
  forgetOldest() {
    let oldest = this.runs.values().next().value;
    for (const run of this.runs.values()) {
      if (run.isIdle()) {
        oldest = run;
        break;
      }
    }
    this.settle(oldest.response);
    this.runs.delete(oldest.key);
    if (this.runBySession.get(oldest.sessionKey) === oldest.id) this.runBySession.delete(oldest.sessionKey);
  }

  // ── tools ──

  toolStart(source, run, call) {
    const known = run.toolStarted(source, call.id);
    if (known !== null) return known;
    this.settle(run.response);
    const started = run.addTool(call.id, call.name, call.args, call.at ?? this.journal.now());
    const payload = call.raw ? { ...call.raw, source: call.source } : { arguments: call.args ?? null, source: call.source };
    if (call.parent) payload.parent_tool_call_id = call.parent;
    this.writeTool("tool_call", run, started, { at: started.at }, payload);
    return started;
  }

  toolEnd(source, run, end) {
    let call = run.toolEnded(source, end.id);
    if (call === null) {
      const at = this.before(end.durationMs);
      this.toolStart(source, run, { id: end.id, name: end.name, args: end.args, at, source: end.source });
      call = run.latestTool(end.id);
    }
    if (call.written) return;
    for (const key in end) if (end[key] !== undefined) call.result[key] = end[key];
    call.endedAt ??= this.journal.now();
    const moreToCome = source === "stream" && (this.hooksLive || (call.hasOutput && outcomeOf(end).exitCode === undefined));
    if (!moreToCome) this.finishTool(run, call);
    else if (call.wait === null) {
      run.ending.add(call);
      call.wait = this.later(WAIT_FOR_HOOK_MS, () => this.finishTool(run, call));
    }
  }

  finishTool(run, call) {
    if (call.written) return;
    call.written = true;
    run.ending.delete(call);
    this.settle(call.wait);
    const { result, durationMs, source, parent, raw } = call.result;
    const { failure, exitCode } = outcomeOf(call.result);
    const payload = raw ? { ...raw, source } : { result: result ?? null, source };
    if (exitCode !== undefined) payload.exit_code = exitCode;
    if (call.updates > 0) payload.updates = call.updates;
    if (parent) payload.parent_tool_call_id = parent;
    const known = { at: call.endedAt, durationMs, status: failure === null ? "ok" : "error", error: failure };
    this.writeTool("tool_result", run, call, known, payload);
    call.args = call.result = call.wait = null;
  }

  writeTool(eventType, run, call, known, payload) {
    const finished = eventType === "tool_result";
    known.toolCallId = call.id;
    known.toolName = call.name;
    // Ids repeat, so the elapsed time is this call's own and not whatever began last under that id.
    if (finished) known.durationMs ??= Math.max(0, call.endedAt - call.at);
    this.write(eventType, TOOLS, run, known, payload);
    if (!isMemoryTool(call.name)) return;
    const found = finished ? (call.result.result ?? {}) : undefined;
    const lookup = memoryLookup(call.args ?? call.result.args, found, known.status === "error");
    this.write(call.name, TOOLS, run, known, { observed_as: eventType, ...lookup });
  }

  // ── model calls and turns ──

  // One source tells of the model calls of a run. The stream tells later and less exactly, and gives way to any other.
  tellsOfModels(source, run) {
    return run.modelSource === null || run.modelSource === source || run.modelSource === "stream";
  }

  modelStart(source, run, facts) {
    if (!this.tellsOfModels(source, run)) return;
    if (run.modelSource !== source && run.model) {
      run.model.source = run.modelSource = source; // the same call, from the better source
      return;
    }
    run.modelSource = source;
    this.goOn(run.attempt);
    this.settle(run.response);
    if (run.model) this.modelEnd(source, run, { outcome: "unobserved" });
    const at = facts.at ?? this.journal.now();
    if (!run.turn?.documented) this.startTurn(run, at, {});
    run.model = { ...facts, at, source };
    run.sawMessage = false;
    this.write("before_provider_request", EXTENSION, run, { at }, { ...facts, ...run.takePrompt(), turn: run.turn.number });
  }

  modelEnd(source, run, told) {
    if (run.model ? run.model.source !== source : source === "stream" || !this.tellsOfModels(source, run)) return;
    if (!run.model) this.modelStart(source, run, { ...told, at: this.before(told.durationMs) });
    const call = run.model;
    run.model = null;
    run.response = null;
    const at = this.journal.now();
    const facts = call.failure ? { ...told, outcome: "error", error: told.error ?? call.failure } : told;
    const response = { call, facts, at, usage: facts.usage ?? call.usage, error: facts.error ?? null };
    const write = () => this.writeResponse(run, response);
    run.pending = response;
    const known = facts.outcome === "error" ? response.error !== null : response.usage !== undefined;
    if (known || facts.outcome === "unobserved") write();
    else run.response = this.later(WAIT_FOR_USAGE_MS, write);
  }

  writeResponse(run, { call, facts, at, usage, error }) {
    run.response = null;
    run.pending = null;
    const failed = facts.outcome === "error";
    if (failed && run.turn) run.turn.status = "error";
    if (failed) run.lastModelError = error ?? facts.errorCategory ?? "model call failed";
    else run.lastModelError = null;
    if (!failed && usage === undefined) run.noteWithoutUsage(call.at, at);
    const { error: _, ...told } = facts;
    const payload = { provider: call.provider, model: call.model, ...told, turn: run.turn?.number, usage: usage ?? null };
    const status = failed ? "error" : "ok";
    const durationMs = facts.durationMs ?? Math.max(0, at - call.at);
    this.write("after_provider_response", EXTENSION, run, { at, durationMs, status, error: run.lastModelError }, payload);
  }

  startTurn(run, at, told, documented = false) {
    this.endTurn(run);
    run.turn = { number: (run.turns += 1), at, lastAt: at, status: "ok", documented };
    this.write("turn_start", EXTENSION, run, { at }, { ...told, turn: run.turn.number });
  }

  endTurn(run, told = {}) {
    for (const call of [...run.ending]) this.finishTool(run, call); // what has ended, ended in this turn
    if (!run.turn) return;
    const { number, at, lastAt, status } = run.turn;
    run.turn = null;
    this.write("turn_end", EXTENSION, run, { at: lastAt, durationMs: lastAt - at, status }, { ...told, turn: number });
  }

  // ── agent runs ──

  agentStart(source, run, payload) {
    if (!run.isNews("agent_start", source)) return;
    this.settle(run.attempt?.ending); // the end of the attempt before this one, and not of this one
    run.attempt = { number: (run.attempts += 1), at: this.journal.now(), ending: null };
    this.write("agent_start", EXTENSION, run, {}, { attempt: run.attempts, ...payload });
  }

  agentEnd(source, run, facts) {
    const unannounced = source === "hook" && run.attempts === 0;
    if (unannounced) run.attempt ??= { number: 1, at: this.before(facts.durationMs), ending: null };
    const attempt = run.attempt;
    if (!attempt) return;
    attempt.facts = { ...attempt.facts, ...stripUndefined(facts) };
    attempt.endedAt ??= this.journal.now();
    const wait = source === "hook" ? WAIT_FOR_TOTALS_MS : this.hooksLive ? 4 * WAIT_FOR_HOOK_MS : 0;
    this.cancel(attempt.ending);
    if (wait === 0) this.finishAgent(run, attempt);
    else attempt.ending = this.later(wait, () => this.finishAgent(run, attempt));
  }

  // A model call after the end that was told: another plugin can ask an agent to go on.
  goOn(attempt) {
    if (!attempt?.ending) return;
    this.cancel(attempt.ending);
    attempt.ending = attempt.endedAt = null;
  }

  cancel(entry) {
    if (!entry) return;
    clearTimeout(entry.timer);
    this.waiting.delete(entry);
  }

  finishAgent(run, attempt) {
    if (run.attempt === attempt) run.attempt = null;
    if (run.model) this.modelEnd(run.model.source, run, { outcome: "unobserved" });
    this.settle(run.response);
    if (run.partial && !run.sawMessage) {
      this.write("message_end", EXTENSION, run, {}, { role: "assistant", text: run.partial, partial: true });
    }
    run.partial = null;
    this.endTurn(run);
    const { error, success, aborted } = attempt.facts;
    const failure = error ?? run.lastModelError ?? (success === false ? "ended without success" : null);
    const status = failure !== null || aborted === true ? "error" : "ok";
    const said = failure ?? (aborted === true ? "aborted" : null);
    const durationMs = attempt.facts.durationMs ?? attempt.endedAt - attempt.at;
    const payload = { attempt: attempt.number, ...attempt.facts };
    this.write("agent_end", EXTENSION, run, { at: attempt.endedAt, durationMs, status, error: said }, payload);
  }

  // ── sources ──

  /** A typed hook of today's OpenClaw. */
  hook(name, event, context) {
    const run = this.run(event, context);
    switch (name) {
      case "before_agent_run":
        this.agentStart("hook", run, { agent_id: context?.agentId, trigger: context?.trigger });
        break;
      case "llm_input":
        run.prompt = promptFacts(event);
        break;
      case "model_call_started":
        this.modelStart("hook", run, modelFacts(event));
        break;
      case "model_call_ended":
        this.modelEnd("hook", run, modelFacts(event));
        break;
      case "before_tool_call":
        this.toolStart("hook", run, { id: event.toolCallId, name: event.toolName, args: event.params, source: name });
        break;
      case "after_tool_call": {
        const { toolCallId: id, toolName, params: args, result, error, durationMs } = event;
        this.toolEnd("hook", run, { id, name: toolName, args, result, error, durationMs, source: name });
        break;
      }
      case "agent_end": {
        const { success, error, durationMs, messages } = event;
        const told = { success, error: error ? errorText(event) : undefined, durationMs, messages: messages?.length };
        this.settle(run.response);
        told.recovered_usage = recoveredUsage(messages, run.takeWithoutUsage());
        this.agentEnd("hook", run, told);
        break;
      }
      case "llm_output":
        this.totals(run, event);
        break;
      case "before_compaction":
      case "after_compaction":
        this.compaction("hook", run, name === "before_compaction" ? "start" : "end", event);
        break;
      default:
        this.write(name, EXTENSION, run, errorOf(event), copyOf(event));
    }
  }

  totals(run, event) {
    const attempt = run.attempt;
    if (!attempt) return;
    const { usage, provider, model } = event;
    attempt.facts = { ...attempt.facts, usage_total: usage ?? null, provider, model };
    this.settle(attempt.ending);
  }

  compaction(source, run, phase, facts) {
    if (!run.isNews(`compaction_${phase}`, source)) return;
    const { messages, ...rest } = facts ?? {};
    this.write(`compaction_${phase}`, EXTENSION, run, {}, { messages: messages?.length, ...rest });
  }

  /** An event of OpenClaw's agent event stream. */
  agentEvent(event) {
    const run = this.run(event);
    if (run.isRepeated(event)) return;
    const data = event.data ?? {};
    const phase = data.phase ?? "";
    switch (event.stream) {
      case "lifecycle":
        this.lifecycle(run, phase, data, event);
        break;
      case "tool":
        this.toolStream(run, phase, data);
        break;
      case "command_output":
        this.commandOutput(run, phase, data);
        break;
      case "usage":
        this.usage(run, run.outputSince(data.outputTokens));
        break;
      case "assistant":
        if (typeof data.text === "string") run.partial = data.text;
        break;
      case "compaction":
        if (phase === "start" || phase === "end") this.compaction("stream", run, phase, data);
        break;
      case "run_status":
        if (phase === "retrying") this.write("provider_retry", EXTENSION, run, {}, { ...data });
        break;
    }
  }

  usage(run, outputTokens) {
    if (run.pending) run.pending.facts.outputTokens = outputTokens;
    else this.modelEnd("stream", run, { outcome: "completed", outputTokens });
  }

  lifecycle(run, phase, data, event) {
    if (phase === "start") this.agentStart("stream", run, { agent_id: event.agentId });
    else if (phase === "model") {
      // A last one without provider and model only says that the run is over.
      if (data.provider || data.model) this.modelStart("stream", run, { provider: data.provider, model: data.model });
    } else if (phase === "finishing" || phase === "end" || phase === "error") {
      const { error, errorObservation, stopReason, aborted } = data;
      if (error) this.explainModelError(run, errorText(data), errorObservation);
      else this.modelEnd("stream", run, { outcome: "completed" });
      this.agentEnd("stream", run, { error: error ? errorText(data) : undefined, stopReason, aborted });
    }
  }

  // The hook that ends a failed model call gives only a category; the words follow on the stream.
  explainModelError(run, error, observation) {
    const cause = { failover_reason: observation?.failoverReason, failure_kind: observation?.providerRuntimeFailureKind };
    if (run.pending?.facts.outcome === "error") {
      run.pending.error = error;
      Object.assign(run.pending.facts, stripUndefined(cause));
      this.settle(run.response);
    } else this.modelEnd("stream", run, { outcome: "error", error, ...stripUndefined(cause) });
  }

  toolStream(run, phase, data) {
    const { toolCallId: id, name, args, parentToolCallId: parent, result, isError } = data;
    if (typeof id !== "string") return;
    if (phase === "start") {
      this.modelEnd("stream", run, { outcome: "completed" });
      this.toolStart("stream", run, { id, name, args, parent, source: "tool:start" });
    } else if (phase === "update") run.toolUpdated(id);
    else if (phase === "result") this.toolEnd("stream", run, { id, name, args, result, isError, parent, source: "tool:result" });
  }

  commandOutput(run, phase, data) {
    const call = run.latestTool(data.toolCallId);
    if (!call || call.written) return;
    call.hasOutput = true;
    if (phase !== "end") return;
    call.result.exitCode = data.exitCode ?? undefined;
    if (call.endedAt !== null && !this.hooksLive) this.finishTool(run, call);
  }

  /** A message that OpenClaw has saved in a session transcript, with its own usage. */
  transcriptUpdate(update) {
    const message = update?.message;
    if (!message) return;
    const run = this.run(update);
    if (!run.isNewMessage(update.messageId)) return;
    if (message.role === "assistant") this.assistantMessage(run, message);
    const eventType = message.role === "user" ? "input" : "message_end";
    if (!run.isNews(`${eventType} ${message.role}`, "transcript")) return;
    const payload = { role: message.role, ...messageFacts(message), message_id: update.messageId };
    const failed = message.stopReason === "error" || message.stopReason === "aborted";
    const known = failed ? { status: "error", error: message.errorMessage ?? message.stopReason } : {};
    this.write(eventType, EXTENSION, run, known, payload);
  }

  // OpenClaw 2026.6.1 calls a request completed that found no server; what it saved says that it failed.
  assistantMessage(run, { usage, stopReason, errorMessage }) {
    run.sawMessage = true;
    const failure = stopReason === "error" ? (errorMessage ?? "model call failed") : null;
    if (run.pending) {
      run.pending.usage ??= usage;
      if (failure !== null) {
        run.pending.facts.outcome = "error";
        run.pending.error ??= failure;
      }
      this.settle(run.response);
    } else if (run.model) {
      run.model.usage = usage;
      run.model.failure = failure;
      this.modelEnd("stream", run, { outcome: "completed" });
    }
  }

  /** An event under one of the documented names, on an OpenClaw that has them. */
  documented(eventType, layer, event, context) {
    const raw = copyOf(event);
    const run = this.run(raw, context);
    if (layer === TOOLS) this.documentedTool(eventType, run, raw);
    else if (eventType === "agent_start") this.agentStart(eventType, run, raw);
    else if (eventType === "turn_start") this.startTurn(run, this.journal.now(), raw, true);
    else if (eventType === "turn_end" && run.turn) {
      this.settle(run.response);
      this.endTurn(run, raw);
    } else if (eventType === "before_provider_request") this.modelStart(eventType, run, raw);
    else if (eventType === "after_provider_response") this.modelEnd("before_provider_request", run, responseFacts(raw));
    else if (!SAVED_MESSAGES.has(eventType) || run.isNews(`${eventType} ${raw.message?.role ?? raw.role ?? "user"}`, eventType)) {
      this.write(eventType, layer, run, errorOf(raw), raw);
    }
  }

  documentedTool(eventType, run, raw) {
    const id = raw.toolCallId ?? raw.tool_call_id;
    const name = raw.toolName ?? raw.tool_name;
    if (typeof id !== "string") this.write(eventType, TOOLS, run, { ...errorOf(raw), toolName: name }, raw);
    else if (eventType === "tool_execution_update") run.toolUpdated(id);
    else {
      const { content, details, error, isError, durationMs } = raw;
      const args = raw.args ?? raw.arguments ?? raw.params ?? raw.input;
      const call = { id, name, args, raw, source: eventType };
      if (eventType === "tool_call" || eventType === "tool_execution_start") this.toolStart(eventType, run, call);
      else this.toolEnd(eventType, run, { ...call, result: raw.result ?? { content, details }, error, isError, durationMs });
    }
  }
}
