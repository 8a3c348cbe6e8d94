"""Attributes of spans, by OpenTelemetry's semantic conventions for GenAI and by OpenInference.

Both are written: most backends read the first, Phoenix reads the second. The GenAI conventions are those of 2026, with
the provider in `gen_ai.provider.name`; older names are not written.
"""

from __future__ import annotations

from typing import Any

from critiqor.exporters.otlp.recorded_values import value_to_json, value_to_text
from critiqor.exporters.otlp.span import Attributes
from critiqor.model.diagnosis import Diagnosis
from critiqor.model.record import RunHead
from critiqor.model.sanitize import sanitize
from critiqor.model.trace import Fact, label

EXCEPTION = "exception"
OTHER_ERROR = "_OTHER"
MAX_CONTENT = 32_768
"""Maximum length in characters of an attribute with content, because collectors limit the size of a request."""
_PROVIDERS = {
    "amazon-bedrock": "aws.bedrock",
    "azure-openai": "azure.ai.openai",
    "google": "gcp.gemini",
    "google-vertex": "gcp.vertex_ai",
    "mistral": "mistral_ai",
    "moonshot": "moonshot_ai",
    "xai": "x_ai",
}
"""Names that the conventions give to providers which OpenClaw names differently."""
_USAGE = {
    "output_tokens": ("gen_ai.usage.output_tokens", "llm.token_count.completion"),
    "cache_read_tokens": ("gen_ai.usage.cache_read.input_tokens", "llm.token_count.prompt_details.cache_read"),
    "cache_write_tokens": ("gen_ai.usage.cache_creation.input_tokens", "llm.token_count.prompt_details.cache_write"),
}
_READ = ("input_tokens", "cache_read_tokens", "cache_write_tokens")
_FINISH_REASONS = {
    "content-filter": "content_filter",
    "end_turn": "stop",
    "function_call": "tool_call",
    "max_tokens": "length",
    "maxTokens": "length",
    "refusal": "content_filter",
    "stop_sequence": "stop",
    "toolUse": "tool_call",
    "tool_calls": "tool_call",
    "tool_use": "tool_call",
}
"""Stop reasons that OpenClaw or a provider names differently than the conventions, which have `stop`, `length`,
`content_filter`, `tool_call` and `error`, and allow others, such as `aborted`."""


def resource_of(run: RunHead, trace_id: str) -> Attributes:
    """Return the attributes of the resource: all traces of a run have them. Phoenix uses the agent as project name.

    `trace_id` is that of the span of the run: run ids are unique in one runs folder only.
    """
    agent = label(run.metadata.agent_id)
    return {
        "service.name": agent,
        "service.namespace": label(run.metadata.tenant_id),
        "openinference.project.name": agent,
        "critiqor.run_id": run.run_id,
        "critiqor.run_trace_id": trace_id,
    }


def run_attributes(run: RunHead, diagnosis: Diagnosis | None) -> Attributes:
    """Return the attributes of the span of the run."""
    attributes: Attributes = {
        "openinference.span.kind": "CHAIN",
        "critiqor.run_id": run.run_id,
        "critiqor.status": run.status,
        "critiqor.framework": label(run.metadata.framework),
    }
    if run.seal is not None:
        attributes["critiqor.evidence_digest"] = label(run.seal.digest)
    if diagnosis is not None:
        attributes |= {"critiqor.outcome": diagnosis.outcome.state, "critiqor.readiness": diagnosis.readiness}
        attributes["critiqor.confidence_score"] = diagnosis.confidence_score
        if diagnosis.trust_score is not None:
            attributes["critiqor.trust_score"] = diagnosis.trust_score
    return attributes


def agent_attributes(facts: dict[str, Fact], agent: str) -> Attributes:
    """Return the attributes of an attempt of an agent run."""
    attributes: Attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "openinference.span.kind": "AGENT",
        "gen_ai.agent.id": agent,
        "gen_ai.agent.name": agent,
        "agent.name": agent,
    }
    return (
        attributes | _renamed(facts, {"attempt": "critiqor.attempt", "trigger": "critiqor.trigger"}) | _provider(facts)
    )


def chat_attributes(facts: dict[str, Fact], requested_model: Fact | None) -> Attributes:
    """Return the attributes of a model call; `requested_model` is None if it is not known."""
    attributes: Attributes = {"gen_ai.operation.name": "chat", "openinference.span.kind": "LLM", **_provider(facts)}
    if isinstance(model := facts.get("model"), str):
        attributes |= {"gen_ai.response.model": model, "llm.model_name": model}
    if isinstance(requested_model, str):
        attributes["gen_ai.request.model"] = requested_model
    attributes |= _tokens(facts)
    if isinstance(cost := facts.get("cost_usd"), int | float):
        attributes["llm.cost.total"] = float(cost)
        if facts.get("cost_is_estimated"):
            attributes["critiqor.cost.is_estimated"] = True
    if isinstance(first := facts.get("first_byte_ms"), int | float):
        attributes["gen_ai.response.time_to_first_chunk"] = first / 1000
    return attributes


def tool_attributes(facts: dict[str, Fact], name: str) -> Attributes:
    """Return the attributes of a tool call."""
    attributes: Attributes = {
        "gen_ai.operation.name": "execute_tool",
        "openinference.span.kind": "TOOL",
        "gen_ai.tool.name": name,
        "tool.name": name,
    }
    if isinstance(call_id := facts.get("tool_call_id"), str):
        attributes |= {"gen_ai.tool.call.id": call_id, "tool.id": call_id}
    return attributes | _renamed(facts, {"exit_code": "process.exit.code"})


def session_attributes(session: str | None) -> Attributes:
    """Return the attributes of a span that belongs to an OpenClaw session."""
    return {} if session is None else {"gen_ai.conversation.id": label(session), "session.id": label(session)}


def place_attributes(facts: dict[str, Fact]) -> Attributes:
    """Return the attributes that locate a span in the evidence."""
    names = {"event_id": "critiqor.event_id", "end_event_id": "critiqor.end_event_id"}
    return _renamed(facts, {**names, "agent_run_id": "critiqor.agent_run_id"})


def error_type(facts: dict[str, Fact]) -> str:
    """Return the type of an error: the category of the provider, or the exit code of the command."""
    if isinstance(category := facts.get("error_category"), str) and category:
        return category
    code = facts.get("exit_code")
    return f"exit_code_{code}" if isinstance(code, int) and not isinstance(code, bool) and code else OTHER_ERROR


def exception_attributes(kind: str, error: str | None) -> Attributes:
    """Return the attributes of an exception event; without a message if content is not exported."""
    return {"exception.type": kind, **({"exception.message": error} if error else {})}


def _input_attributes(text: str, *, is_json: bool = False) -> Attributes:
    """Return the attributes of an input."""
    kind = "application/json" if is_json else "text/plain"
    return {"input.value": _cut(text), "input.mime_type": kind}


def _output_attributes(text: str) -> Attributes:
    """Return the attributes of an output."""
    return {"output.value": _cut(text), "output.mime_type": "text/plain"}


def arguments_attributes(arguments: Any) -> Attributes:
    """Return the attributes of the arguments of a tool call."""
    text = value_to_json(arguments)
    return {"gen_ai.tool.call.arguments": _cut(text), **_input_attributes(text, is_json=True)}


def result_attributes(result: Any) -> Attributes:
    """Return the attributes of a tool result."""
    return {"gen_ai.tool.call.result": _cut(value_to_json(result)), **_output_attributes(value_to_text(result))}


def question_attributes(text: str) -> Attributes:
    """Return the attributes of a user's message to an agent."""
    message = {
        "role": "user",
        "parts": [{"type": "text", "content": _cut(text)}],
    }
    return {"gen_ai.input.messages": value_to_json([message]), **_input_attributes(text)}


def answer_attributes(text: str, reason: str | None) -> Attributes:
    """Return the attributes of an agent's answer."""
    parts = [{"type": "text", "content": _cut(text)}]
    return {"gen_ai.output.messages": _output_messages(parts, reason), **_output_attributes(text)}


def reply_attributes(text: str, tool_calls: Any, reason: str | None) -> Attributes:
    """Return the attributes of a model's response: its text and the tool calls it requests."""
    calls = [call for call in tool_calls if isinstance(call, dict)] if isinstance(tool_calls, list) else []
    parts: list[dict[str, Any]] = [{"type": "text", "content": _cut(text)}] if text else []
    prefix = "llm.output_messages.0.message"
    attributes: Attributes = {f"{prefix}.role": "assistant"}
    if text:
        attributes |= {f"{prefix}.content": _cut(text), **_output_attributes(text)}
    for number, call in enumerate(calls):
        call_id, name = call.get("id"), label(str(call.get("name") or "unknown tool"))
        attributes[f"{prefix}.tool_calls.{number}.tool_call.function.name"] = name
        part = {"type": "tool_call", "name": name}
        if isinstance(call_id, str):
            attributes[f"{prefix}.tool_calls.{number}.tool_call.id"] = part["id"] = label(call_id)
        parts.append(part)
    return {"gen_ai.output.messages": _output_messages(parts, reason), **attributes}


def finish_attributes(reason: str) -> Attributes:
    """Return the attributes of the reason why a model stopped."""
    name = _finish_reason(reason)
    return {"gen_ai.response.finish_reasons": [name], "llm.finish_reason": name}


def _output_messages(parts: list[dict[str, Any]], reason: str | None) -> str:
    finish = _finish_reason(reason) if reason else "unknown"
    return value_to_json([{"role": "assistant", "parts": parts, "finish_reason": finish}])


def _finish_reason(reason: str) -> str:
    return _FINISH_REASONS.get(reason, label(reason))


def _provider(facts: dict[str, Fact]) -> Attributes:
    if not isinstance(provider := facts.get("provider"), str):
        return {}
    name = _PROVIDERS.get(provider, provider)
    return {"gen_ai.provider.name": name, "llm.provider": provider}


def _tokens(facts: dict[str, Fact]) -> Attributes:
    """Return the token counts. The conventions include tokens read from or written to a cache in the input tokens."""
    attributes: Attributes = {}
    for fact, names in _USAGE.items():
        if (count := _count(facts.get(fact))) is not None:
            attributes |= dict.fromkeys(names, count)
    read = [count for fact in _READ if (count := _count(facts.get(fact))) is not None]
    if read:
        attributes |= dict.fromkeys(("gen_ai.usage.input_tokens", "llm.token_count.prompt"), sum(read))
        attributes["llm.token_count.total"] = sum(read) + (_count(facts.get("output_tokens")) or 0)
    return attributes


def _count(fact: Fact | None) -> int | None:
    return int(fact) if isinstance(fact, int | float) and not isinstance(fact, bool) and fact >= 0 else None


def _renamed(facts: dict[str, Fact], names: dict[str, str]) -> Attributes:
    return {attribute: facts[name] for name, attribute in names.items() if name in facts}


def _cut(text: str) -> str:
    return sanitize(text, max_length=MAX_CONTENT, multiline=True)
