// Extracts what is recorded from OpenClaw's hook and stream events.

import { errorText, toolFailure } from "./events.js";
import { digestOf } from "./payload.js";

/** @import { Facts, Known } from "./events.js" */

/**
 * Returns a copy without the members that are undefined.
 * @param {Facts} facts
 * @returns {Facts}
 */
export function stripUndefined(facts) {
  return Object.fromEntries(Object.entries(facts).filter(([, value]) => value !== undefined));
}

/**
 * Returns why a tool result counts as a failure (or null), and the exit code of its command.
 * @param {OpenClaw.ToolOutcome} end
 * @returns {{ failure: string | null, exitCode?: unknown }}
 */
export function outcomeOf(end) {
  try {
    return { failure: toolFailure(end), exitCode: end.result?.details?.exitCode ?? end.result?.exitCode ?? end.exitCode };
  } catch {
    return { failure: null }; // a result with a getter that throws
  }
}

/** @type {unknown[]} */
const BAD_OUTCOMES = ["error", "timeout", "killed"];

/**
 * Returns the status and error of an event that reports its own outcome.
 * @param {OpenClaw.ReportedOutcome | null | undefined} event
 * @returns {Known}
 */
export function errorOf(event) {
  try {
    const { isError, success, error, outcome } = event ?? {};
    if (BAD_OUTCOMES.includes(outcome) && !error) return { status: "error", error: `ended with ${outcome}` };
    const failed = isError === true || success === false || Boolean(error);
    return failed ? { status: "error", error: errorText(event) } : {};
  } catch {
    return {};
  }
}

/**
 * Returns the facts of a documented `after_provider_response` event: its HTTP status becomes an error or an outcome.
 * @param {Facts} raw
 * @returns {Facts}
 */
export function responseFacts(raw) {
  const refused = typeof raw.status === "number" && raw.status >= 400 ? `HTTP ${raw.status}` : undefined;
  const error = errorOf(raw).error ?? refused;
  return { ...raw, error, outcome: error === undefined ? (raw.outcome ?? "completed") : "error" };
}

/**
 * Returns the facts of a model call from its hook.
 * @param {OpenClaw.ModelCall} event
 */
export function modelFacts(event) {
  const {
    callId, provider, model, api, transport, contextTokenBudget, contextWindowSource, durationMs, outcome, errorCategory,
    failureKind, requestPayloadBytes, responseStreamBytes, timeToFirstByteMs,
  } = event;
  return stripUndefined({
    callId, provider, model, api, transport, contextTokenBudget, contextWindowSource, durationMs, outcome, errorCategory,
    failureKind, requestPayloadBytes, responseStreamBytes, timeToFirstByteMs,
  });
}

const MAX_TOOL_NAMES = 150;
const DIRECTORY = "\nAvailable deferred-schema tools:\n"; // heading of the tools behind OpenClaw's tool search

/**
 * Returns sizes, counts and digests of a prompt, and the names of the tools: those that the model can call, and those
 * that it can only reach through OpenClaw's tool search. The prompt itself is not kept: it has about 280 KB on every turn.
 * @param {OpenClaw.LlmInput} event
 */
export function promptFacts(event) {
  const system = typeof event.systemPrompt === "string" ? event.systemPrompt : "";
  const tools = Array.isArray(event.tools) ? event.tools.map(toolName) : [];
  return {
    system_prompt: { size: Buffer.byteLength(system), digest: digestOf(system) },
    tools: stripUndefined({
      count: tools.length,
      digest: digestOf(tools.join("\n")),
      names: tools.slice(0, MAX_TOOL_NAMES),
      deferred: deferredTools(system),
    }),
    history_messages: Array.isArray(event.historyMessages) ? event.historyMessages.length : null,
  };
}

/**
 * Returns the names in the directory of tools that OpenClaw adds to the system prompt; undefined if it has none.
 * @param {string} system
 */
function deferredTools(system) {
  const start = system.indexOf(DIRECTORY);
  if (start < 0) return undefined;
  const names = [];
  for (const line of system.slice(start + DIRECTORY.length, start + 20_000).split("\n", MAX_TOOL_NAMES)) {
    const name = /^- ([\w.:-]+)/.exec(line)?.[1];
    if (name === undefined) break;
    names.push(name);
  }
  return names;
}

/** @param {OpenClaw.Tool | null} tool */
function toolName(tool) {
  return String(tool?.name ?? tool?.function?.name ?? "");
}

/**
 * Returns the facts of a saved message.
 * @param {OpenClaw.Message} message
 */
export function messageFacts(message) {
  const parts = Array.isArray(message.content) ? message.content : [{ type: "text", text: message.content }];
  const texts = [];
  const calls = [];
  for (const part of parts) {
    if (typeof part?.text === "string") texts.push(part.text);
    if (part?.type === "toolCall") calls.push({ id: part.id, name: part.name });
  }
  return stripUndefined({
    text: texts.join("\n"),
    tool_calls: calls.length > 0 ? calls : undefined,
    stop_reason: message.stopReason,
    provider: message.provider,
    model: message.model,
  });
}

/**
 * Returns the usage of model calls that no saved message reported, from the history at the end of an agent run. OpenClaw
 * does not announce the message of a model call that requested a tool which does not exist.
 * @param {OpenClaw.AgentEnd["messages"]} messages
 * @param {{ turn: number | undefined, from: number, until: number }[]} calls
 */
export function recoveredUsage(messages, calls) {
  if (!Array.isArray(messages) || calls.length === 0) return undefined;
  const found = [];
  for (const { turn, from, until } of calls) {
    const usage = messages.find((message) => message?.usage && isAnswerWithin(message, from, until))?.usage;
    if (usage) found.push({ turn, usage });
  }
  return found.length > 0 ? found : undefined;
}

/**
 * @param {OpenClaw.Message} message
 * @param {number} from
 * @param {number} until
 */
function isAnswerWithin({ role, timestamp }, from, until) {
  return role === "assistant" && typeof timestamp === "number" && timestamp >= from && timestamp <= until;
}
