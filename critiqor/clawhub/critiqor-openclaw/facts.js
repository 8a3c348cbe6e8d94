// What is taken out of the events of OpenClaw, kind by kind.

import { errorText, toolFailure } from "./events.js";
import { digestOf } from "./payload.js";

/** Without the members that are undefined. */
export function stripUndefined(facts) {
  return Object.fromEntries(Object.entries(facts).filter(([, value]) => value !== undefined));
}

/** Why a tool result counts as a failure, or null, and the exit code of its command. */
export function outcomeOf(end) {
  try {
    return { failure: toolFailure(end), exitCode: end.result?.details?.exitCode ?? end.exitCode };
  } catch {
    return { failure: null }; // a result that cannot be read
  }
}

const BAD_OUTCOMES = ["error", "timeout", "killed"];

/** Status and error of an event that says itself how it went. */
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

/** What an answer of a provider tells under its documented name: the HTTP status, or an error. */
export function responseFacts(raw) {
  const refused = raw.status >= 400 ? `HTTP ${raw.status}` : undefined;
  const error = errorOf(raw).error ?? refused;
  return { ...raw, error, outcome: error === undefined ? (raw.outcome ?? "completed") : "error" };
}

/** What a hook tells of a model call. */
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

/** What can be told from a prompt without keeping it: it has about 280 KB on every turn. */
export function promptFacts(event) {
  const system = typeof event.systemPrompt === "string" ? event.systemPrompt : "";
  const nameOf = (tool) => String(tool?.name ?? tool?.function?.name ?? "");
  const tools = Array.isArray(event.tools) ? event.tools.map(nameOf) : [];
  return {
    system_prompt: { size: Buffer.byteLength(system), digest: digestOf(system) },
    tools: { count: tools.length, digest: digestOf(tools.join("\n")) },
    history_messages: Array.isArray(event.historyMessages) ? event.historyMessages.length : null,
  };
}

/** What is kept of a saved message. */
export function messageFacts(message) {
  const parts = Array.isArray(message.content) ? message.content : [{ type: "text", text: message.content }];
  const texts = parts.filter((part) => typeof part?.text === "string").map((part) => part.text);
  const calls = parts.filter((part) => part?.type === "toolCall").map(({ id, name }) => ({ id, name }));
  return stripUndefined({
    text: texts.join("\n"),
    tool_calls: calls.length > 0 ? calls : undefined,
    stop_reason: message.stopReason,
    provider: message.provider,
    model: message.model,
  });
}

/**
 * Usage that no saved message told in time, from the history at the end of a run: OpenClaw does not announce the message
 * of a model call that asked for a tool which does not exist.
 */
export function recoveredUsage(messages, calls) {
  if (!Array.isArray(messages) || calls.length === 0) return undefined;
  const found = [];
  for (const { turn, from, until } of calls) {
    const belongs = ({ role, timestamp }) => role === "assistant" && timestamp >= from && timestamp <= until;
    const usage = messages.find((message) => message?.usage && belongs(message))?.usage;
    if (usage) found.push({ turn, usage });
  }
  return found.length > 0 ? found : undefined;
}
