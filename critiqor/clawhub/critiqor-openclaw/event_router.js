// Routes what OpenClaw emits to the parts of an agent run that record it, so that each fact is recorded once. The same fact
// arrives from up to three sources: typed hooks, the agent event stream, and (in an OpenClaw that has them) the documented
// names. Hooks report more, streams exist in every mode. Starts are written at once; ends wait briefly for the source that
// reports more, if one is expected.

import { copyOf, errorText } from "./events.js";
import { errorOf, messageFacts, modelFacts, promptFacts, responseFacts } from "./extract.js";
import { Runs } from "./runs.js";

/**
 * @import { Facts } from "./events.js"
 * @import { Prompts } from "./prompts.js"
 * @import { RecordWriter } from "./record_writer.js"
 * @import { AgentRun } from "./runs.js"
 */

/** @typedef {(run: AgentRun, event: OpenClaw.HookEvent, context?: OpenClaw.HookContext) => void} HookHandler */

const EXTENSION = "extension_api";
const TOOLS = "tool_hooks";

/** @type {Record<string, HookHandler>} */
const HOOK_HANDLERS = {
  before_agent_run(run, _event, context) {
    startAttempt(run, "hook", { agent_id: context?.agentId, trigger: context?.trigger });
  },
  llm_input(run, event) {
    run.models.prompt({ ...promptFacts(event), ...run.prompts?.capture(event, run.records) });
  },
  llm_output(run, event) {
    run.attempts.totals(event);
  },
  model_call_started(run, event) {
    run.models.start("hook", modelFacts(event));
  },
  model_call_ended(run, event) {
    run.models.end("hook", modelFacts(event));
  },
  before_tool_call(run, { toolCallId: id, toolName: name, params: args }) {
    run.tools.start("hook", { id, name, args, source: "before_tool_call" });
  },
  after_tool_call(run, { toolCallId: id, toolName: name, params: args, result, error, durationMs }) {
    run.tools.end("hook", { id, name, args, result, error, durationMs, source: "after_tool_call" });
  },
  agent_end(run, event) {
    const { success, error, durationMs, messages } = event;
    if (!run.models.isVisible) writeUnsavedMessages(run, messages);
    const facts = { success, error: error ? errorText(event) : undefined, durationMs, messages: messages?.length };
    run.attempts.end("hook", { ...facts, recovered_usage: run.models.recoverUsage(messages) });
  },
  before_compaction(run, event) {
    writeCompaction(run, "hook", "start", event);
  },
  after_compaction(run, event) {
    writeCompaction(run, "hook", "end", event);
  },
};

// Hooks that are recorded as they are, under their own name.
const PLAIN_HOOKS = [
  "session_start", "session_end", "message_received", "message_sent", "gateway_start", "gateway_stop", "before_reset",
  "subagent_spawned", "subagent_ended",
];

/** The names of today's hooks that `EventRouter.hook` takes. */
export const TYPED_HOOKS = new Set([...Object.keys(HOOK_HANDLERS), ...PLAIN_HOOKS]);

// Documented names of events that a transcript update also reports.
const SAVED_MESSAGES = new Set(["input", "message_end"]);

/** Takes the events of each source and passes them on by kind. */
export class EventRouter {
  /**
   * @param {RecordWriter} records
   * @param {Prompts | null} [prompts]
   */
  constructor(records, prompts = null) {
    this.runs = new Runs(records, prompts);
  }

  /**
   * Handles a typed hook of today's OpenClaw.
   * @param {string} name
   * @param {OpenClaw.HookEvent} event
   * @param {OpenClaw.HookContext} [context]
   */
  hook(name, event, context) {
    const run = this.runs.of(event, context);
    const handle = HOOK_HANDLERS[name];
    if (handle) handle(run, event, context);
    else run.records.write(name, EXTENSION, errorOf(event), copyOf(event));
  }

  /**
   * Handles an event of OpenClaw's agent event stream.
   * @param {OpenClaw.AgentEvent} event
   */
  agentEvent(event) {
    const run = this.runs.of(event);
    if (run.reports.isRepeated(event)) return;
    const data = event.data ?? {};
    const { phase } = data;
    switch (event.stream) {
      case "lifecycle":
        lifecycle(run, data, event.agentId);
        break;
      case "tool":
        toolStream(run, data);
        break;
      case "command_output":
        run.tools.output(data);
        break;
      case "usage":
        run.models.usage(data.outputTokens);
        break;
      case "assistant":
        if (typeof data.text === "string") run.models.streamed(data.text);
        break;
      case "compaction":
        if (phase === "start" || phase === "end") writeCompaction(run, "stream", phase, data);
        break;
      case "run_status":
        if (phase === "retrying") run.records.write("provider_retry", EXTENSION, {}, { ...data });
        break;
    }
  }

  /**
   * Handles a message that OpenClaw has saved in a session transcript, with its own usage.
   * @param {OpenClaw.TranscriptUpdate | null | undefined} update
   */
  transcriptUpdate(update) {
    const message = update?.message;
    if (!message) return;
    const run = this.runs.of(update);
    if (!run.reports.isNewMessage(update.messageId)) return;
    const { role, stopReason, errorMessage } = message;
    if (role === "assistant") run.models.answered(message);
    if (role === "toolResult") run.tools.saved(message.toolCallId, String(messageFacts(message).text ?? ""));
    const eventType = role === "user" ? "input" : "message_end";
    if (!run.reports.isNews(`${eventType} ${role}`, "transcript")) return;
    const payload = { role, ...messageFacts(message), message_id: update.messageId };
    const failed = stopReason === "error" || stopReason === "aborted";
    const known = failed ? { status: "error", error: errorMessage ?? stopReason } : {};
    run.records.write(eventType, EXTENSION, known, payload);
  }

  /**
   * Handles an event under one of the documented names, in an OpenClaw that has them.
   * @param {string} eventType
   * @param {string} layer
   * @param {unknown} event
   * @param {OpenClaw.HookContext} [context]
   */
  documented(eventType, layer, event, context) {
    const raw = copyOf(event);
    const run = this.runs.of(raw, context);
    if (layer === TOOLS) documentedTool(eventType, run, raw);
    else if (eventType === "agent_start") startAttempt(run, eventType, raw);
    else if (eventType === "turn_start") run.turns.start(run.records.now(), raw, true);
    else if (eventType === "turn_end" && run.turns.isOpen) {
      run.records.writeHeld();
      run.turns.end(raw);
    } else if (eventType === "before_provider_request") run.models.start(eventType, raw);
    else if (eventType === "after_provider_response") run.models.end("before_provider_request", responseFacts(raw));
    else if (!SAVED_MESSAGES.has(eventType) || run.reports.isNews(`${eventType} ${roleOf(raw)}`, eventType)) {
      run.records.write(eventType, layer, errorOf(raw), raw);
    }
  }
}

/**
 * Writes the request and the answer of an attempt of a CLI backend from its history: OpenClaw 2026.6.1 reports neither of
 * them otherwise.
 * @param {AgentRun} run
 * @param {OpenClaw.AgentEnd["messages"]} messages
 */
function writeUnsavedMessages(run, messages) {
  if (!Array.isArray(messages)) return;
  const request = messages.findLast((each) => each?.role === "user");
  if (request && run.reports.isNews("input user", "history")) {
    run.records.write("input", EXTENSION, { at: run.attempts.startedAt }, { role: "user", ...messageFacts(request) });
  }
  const answer = messages.findLast((each) => each?.role === "assistant");
  if (answer && run.reports.isNews("message_end assistant", "history")) {
    run.models.answered(answer);
    run.records.write("message_end", EXTENSION, {}, { role: "assistant", ...messageFacts(answer) });
  }
}

/**
 * @param {AgentRun} run
 * @param {string} source
 * @param {Facts} payload
 */
function startAttempt(run, source, payload) {
  if (run.reports.isNews("agent_start", source)) run.attempts.start(payload);
}

/**
 * @param {AgentRun} run
 * @param {"hook" | "stream"} source
 * @param {"start" | "end"} phase
 * @param {OpenClaw.Compaction | null | undefined} facts
 */
function writeCompaction(run, source, phase, facts) {
  if (!run.reports.isNews(`compaction_${phase}`, source)) return;
  const { messages, ...rest } = facts ?? {};
  run.records.write(`compaction_${phase}`, EXTENSION, {}, { messages: messages?.length, ...rest });
}

/**
 * @param {AgentRun} run
 * @param {OpenClaw.StreamData} data
 * @param {unknown} agentId
 */
function lifecycle(run, data, agentId) {
  const { phase, provider, model, error, errorObservation, stopReason, aborted } = data;
  if (phase === "start") startAttempt(run, "stream", { agent_id: agentId });
  else if (phase === "model") {
    // A last one without provider and model only means that the run is over.
    if (provider || model) run.models.start("stream", { provider, model });
  } else if (phase === "finishing" || phase === "end" || phase === "error") {
    const failure = error ? errorText(data) : undefined;
    if (failure === undefined) run.models.end("stream", { outcome: "completed" });
    else run.models.explainError(failure, errorObservation);
    run.attempts.end("stream", { error: failure, stopReason, aborted }, phase !== "finishing");
  }
}

/**
 * @param {AgentRun} run
 * @param {OpenClaw.StreamData} data
 */
function toolStream(run, { phase, toolCallId: id, name, args, parentToolCallId: parent, result, isError }) {
  if (typeof id !== "string") return;
  const call = { id, name, args, parent, source: `tool:${phase}` };
  if (phase === "start") {
    run.models.end("stream", { outcome: "completed" });
    run.tools.start("stream", call);
  } else if (phase === "update") run.tools.update(id);
  else if (phase === "result") run.tools.end("stream", { ...call, result, isError });
}

/**
 * @param {string} eventType
 * @param {AgentRun} run
 * @param {OpenClaw.DocumentedEvent} raw
 */
function documentedTool(eventType, run, raw) {
  const id = raw.toolCallId ?? raw.tool_call_id;
  const name = raw.toolName ?? raw.tool_name;
  if (typeof id !== "string") run.records.write(eventType, TOOLS, { ...errorOf(raw), toolName: name }, raw);
  else if (eventType === "tool_execution_update") run.tools.update(id);
  else {
    const { content, details, error, isError, durationMs } = raw;
    const args = raw.args ?? raw.arguments ?? raw.params ?? raw.input;
    const call = { id, name, args, raw, source: eventType };
    if (eventType === "tool_call" || eventType === "tool_execution_start") run.tools.start(eventType, call);
    else run.tools.end(eventType, { ...call, result: raw.result ?? { content, details }, error, isError, durationMs });
  }
}

/** @param {OpenClaw.DocumentedEvent} raw */
function roleOf(raw) {
  return raw.message?.role ?? raw.role ?? "user";
}
