// Routes what OpenClaw emits to the classes that record agent runs, turns, model calls and tool calls, so that each fact is
// recorded once. The same fact arrives from up to three sources: typed hooks, the agent event stream, and (in an OpenClaw
// that has them) the documented names. Hooks report more, streams exist in every mode. Starts are written at once; ends
// wait briefly for the source that reports more, if one is expected.

import { Attempts } from "./attempts.js";
import { copyOf, errorText } from "./events.js";
import { errorOf, messageFacts, modelFacts, promptFacts, recoveredUsage, responseFacts } from "./extract.js";
import { ModelCalls, Turns } from "./models.js";
import { Runs } from "./runs.js";
import { ToolCalls } from "./tools.js";

const EXTENSION = "extension_api";
const TOOLS = "tool_hooks";

/** Hooks that are recorded as they are, under their own name. */
export const PLAIN_HOOKS = [
  "session_start", "session_end", "message_received", "message_sent", "gateway_start", "gateway_stop", "before_reset",
  "subagent_spawned", "subagent_ended",
];

// Documented names of events that a transcript update also reports.
const SAVED_MESSAGES = new Set(["input", "message_end"]);

const roleOf = (raw) => raw.message?.role ?? raw.role ?? "user";

/** Takes the events of each source and passes them on by kind. */
export class EventRouter {
  constructor(records) {
    this.records = records;
    this.runs = new Runs(records);
    this.tools = new ToolCalls(records);
    this.turns = new Turns(records, this.tools);
    this.models = new ModelCalls(records, this.turns);
    this.attempts = new Attempts(records, this.models, this.turns);
  }

  get handlerErrors() {
    return this.records.handlerErrors;
  }

  /** Handles a typed hook of today's OpenClaw. */
  hook(name, event, context) {
    const run = this.runs.of(event, context);
    switch (name) {
      case "before_agent_run":
        this.attempts.start("hook", run, { agent_id: context?.agentId, trigger: context?.trigger });
        break;
      case "llm_input":
        run.prompt = promptFacts(event);
        break;
      case "model_call_started":
        this.models.start("hook", run, modelFacts(event));
        break;
      case "model_call_ended":
        this.models.end("hook", run, modelFacts(event));
        break;
      case "before_tool_call":
        this.tools.start("hook", run, { id: event.toolCallId, name: event.toolName, args: event.params, source: name });
        break;
      case "after_tool_call": {
        const { toolCallId: id, toolName, params: args, result, error, durationMs } = event;
        this.tools.end("hook", run, { id, name: toolName, args, result, error, durationMs, source: name });
        break;
      }
      case "agent_end": {
        const { success, error, durationMs, messages } = event;
        const facts = { success, error: error ? errorText(event) : undefined, durationMs, messages: messages?.length };
        this.records.settle(run.response);
        facts.recovered_usage = recoveredUsage(messages, run.takeWithoutUsage());
        this.attempts.end("hook", run, facts);
        break;
      }
      case "llm_output":
        this.attempts.totals(run, event);
        break;
      case "before_compaction":
      case "after_compaction":
        this.compaction("hook", run, name === "before_compaction" ? "start" : "end", event);
        break;
      default:
        this.records.write(name, EXTENSION, run, errorOf(event), copyOf(event));
    }
  }

  compaction(source, run, phase, facts) {
    if (!run.isNews(`compaction_${phase}`, source)) return;
    const { messages, ...rest } = facts ?? {};
    this.records.write(`compaction_${phase}`, EXTENSION, run, {}, { messages: messages?.length, ...rest });
  }

  /** Handles an event of OpenClaw's agent event stream. */
  agentEvent(event) {
    const run = this.runs.of(event);
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
        this.tools.output(run, phase, data);
        break;
      case "usage":
        this.models.usage(run, run.outputSince(data.outputTokens));
        break;
      case "assistant":
        if (typeof data.text === "string") run.partial = data.text;
        break;
      case "compaction":
        if (phase === "start" || phase === "end") this.compaction("stream", run, phase, data);
        break;
      case "run_status":
        if (phase === "retrying") this.records.write("provider_retry", EXTENSION, run, {}, { ...data });
        break;
    }
  }

  lifecycle(run, phase, data, event) {
    if (phase === "start") this.attempts.start("stream", run, { agent_id: event.agentId });
    else if (phase === "model") {
      // A last one without provider and model only means that the run is over.
      if (data.provider || data.model) this.models.start("stream", run, { provider: data.provider, model: data.model });
    } else if (phase === "finishing" || phase === "end" || phase === "error") {
      const { error, errorObservation, stopReason, aborted } = data;
      if (error) this.models.explainError(run, errorText(data), errorObservation);
      else this.models.end("stream", run, { outcome: "completed" });
      this.attempts.end("stream", run, { error: error ? errorText(data) : undefined, stopReason, aborted });
    }
  }

  toolStream(run, phase, data) {
    const { toolCallId: id, name, args, parentToolCallId: parent, result, isError } = data;
    const call = { id, name, args, parent, source: `tool:${phase}` };
    if (typeof id !== "string") return;
    if (phase === "start") {
      this.models.end("stream", run, { outcome: "completed" });
      this.tools.start("stream", run, call);
    } else if (phase === "update") run.toolUpdated(id);
    else if (phase === "result") this.tools.end("stream", run, { ...call, result, isError });
  }

  /** Handles a message that OpenClaw has saved in a session transcript, with its own usage. */
  transcriptUpdate(update) {
    const message = update?.message;
    if (!message) return;
    const run = this.runs.of(update);
    if (!run.isNewMessage(update.messageId)) return;
    if (message.role === "assistant") this.models.message(run, message);
    const eventType = message.role === "user" ? "input" : "message_end";
    if (!run.isNews(`${eventType} ${message.role}`, "transcript")) return;
    const payload = { role: message.role, ...messageFacts(message), message_id: update.messageId };
    const failed = message.stopReason === "error" || message.stopReason === "aborted";
    const known = failed ? { status: "error", error: message.errorMessage ?? message.stopReason } : {};
    this.records.write(eventType, EXTENSION, run, known, payload);
  }

  /** Handles an event under one of the documented names, in an OpenClaw that has them. */
  documented(eventType, layer, event, context) {
    const raw = copyOf(event);
    const run = this.runs.of(raw, context);
    if (layer === TOOLS) this.documentedTool(eventType, run, raw);
    else if (eventType === "agent_start") this.attempts.start(eventType, run, raw);
    else if (eventType === "turn_start") this.turns.start(run, this.records.now(), raw, true);
    else if (eventType === "turn_end" && run.turn) {
      this.records.settle(run.response);
      this.turns.end(run, raw);
    } else if (eventType === "before_provider_request") this.models.start(eventType, run, raw);
    else if (eventType === "after_provider_response") this.models.end("before_provider_request", run, responseFacts(raw));
    else if (!SAVED_MESSAGES.has(eventType) || run.isNews(`${eventType} ${roleOf(raw)}`, eventType)) {
      this.records.write(eventType, layer, run, errorOf(raw), raw);
    }
  }

  documentedTool(eventType, run, raw) {
    const id = raw.toolCallId ?? raw.tool_call_id;
    const name = raw.toolName ?? raw.tool_name;
    if (typeof id !== "string") this.records.write(eventType, TOOLS, run, { ...errorOf(raw), toolName: name }, raw);
    else if (eventType === "tool_execution_update") run.toolUpdated(id);
    else {
      const { content, details, error, isError, durationMs } = raw;
      const args = raw.args ?? raw.arguments ?? raw.params ?? raw.input;
      const call = { id, name, args, raw, source: eventType };
      if (eventType === "tool_call" || eventType === "tool_execution_start") this.tools.start(eventType, run, call);
      else {
        const result = raw.result ?? { content, details };
        this.tools.end(eventType, run, { ...call, result, error, isError, durationMs });
      }
    }
  }
}
