"""What the attributes of spans are called: OpenTelemetry's conventions for GenAI, and OpenInference beside them.

Both are written, because collectors and their backends read the first, and Phoenix the second. Of those for GenAI it is
the form of 2026, in which the provider is `gen_ai.provider.name`; what it was called before is not written any more.
"""

from __future__ import annotations

from typing import Any

from critiqor.exporters.otlp.span import Attributes
from critiqor.exporters.texts import json_of, lines, one_line, words_of
from critiqor.model.diagnosis import Diagnosis, Finding
from critiqor.model.record import RunHead
from critiqor.model.report import Recorded
from critiqor.model.trace import Fact, label

EVALUATION = "gen_ai.evaluation.result"
EXCEPTION = "exception"
OTHER_ERROR = "_OTHER"
LONGEST_CONTENT = 32_768
"""Characters of one attribute with content: a collector takes only so much at once."""
LONGEST_EXPLANATION = 2_000
NOTHING_FOUND = "no failure was found"
_PROVIDERS = {
    "amazon-bedrock": "aws.bedrock",
    "azure-openai": "azure.ai.openai",
    "google": "gcp.gemini",
    "google-vertex": "gcp.vertex_ai",
    "mistral": "mistral_ai",
    "moonshot": "moonshot_ai",
    "xai": "x_ai",
}
"""Providers that OpenClaw calls otherwise than the conventions; theirs must be used where there is one."""
_USAGE = {
    "output_tokens": ("gen_ai.usage.output_tokens", "llm.token_count.completion"),
    "cache_read_tokens": ("gen_ai.usage.cache_read.input_tokens", "llm.token_count.prompt_details.cache_read"),
    "cache_write_tokens": ("gen_ai.usage.cache_creation.input_tokens", "llm.token_count.prompt_details.cache_write"),
}
_READ = ("input_tokens", "cache_read_tokens", "cache_write_tokens")
_FINISHED = {
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
"""Why a model stopped, where OpenClaw or its provider calls it otherwise than the conventions: `stop`, `length`,
`content_filter`, `tool_call` and `error` are theirs. They let others be, such as `aborted`, which is none of these."""


def resource_of(run: RunHead) -> Attributes:
    """Whose spans they are; Phoenix puts them into the project of that name."""
    agent = label(run.metadata.agent_id)
    return {
        "service.name": agent,
        "service.namespace": label(run.metadata.tenant_id),
        "openinference.project.name": agent,
    }


def run_attributes(run: RunHead, diagnosis: Diagnosis | None) -> Attributes:
    """Of the span around all others: the run, as Critiqor knows it."""
    known: Attributes = {
        "openinference.span.kind": "CHAIN",
        "critiqor.run_id": run.run_id,
        "critiqor.status": run.status,
        "critiqor.framework": label(run.metadata.framework),
    }
    if run.seal is not None:
        known["critiqor.evidence_digest"] = label(run.seal.digest)
    if diagnosis is not None:
        known |= {"critiqor.outcome": diagnosis.outcome.state, "critiqor.readiness": diagnosis.readiness}
        known["critiqor.confidence_score"] = diagnosis.confidence_score
        if diagnosis.trust_score is not None:
            known["critiqor.trust_score"] = diagnosis.trust_score
    return known


def agent_attributes(facts: dict[str, Fact], agent: str) -> Attributes:
    """Of an attempt of an agent run."""
    known: Attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "openinference.span.kind": "AGENT",
        "gen_ai.agent.id": agent,
        "gen_ai.agent.name": agent,
        "agent.name": agent,
    }
    return known | _named(facts, {"attempt": "critiqor.attempt", "trigger": "critiqor.trigger"}) | _provider(facts)


def chat_attributes(facts: dict[str, Fact], asked_for: Fact | None) -> Attributes:
    """Of a model call; `asked_for` is the model that was asked, where that is known."""
    known: Attributes = {"gen_ai.operation.name": "chat", "openinference.span.kind": "LLM", **_provider(facts)}
    if isinstance(model := facts.get("model"), str):
        known |= {"gen_ai.response.model": model, "llm.model_name": model}
    if isinstance(asked_for, str):
        known["gen_ai.request.model"] = asked_for
    known |= _tokens(facts)
    if isinstance(cost := facts.get("cost_usd"), int | float):
        known["llm.cost.total"] = float(cost)
    if isinstance(first := facts.get("first_byte_ms"), int | float):
        known["gen_ai.response.time_to_first_chunk"] = first / 1000
    return known


def tool_attributes(facts: dict[str, Fact], name: str) -> Attributes:
    """Of a tool call."""
    known: Attributes = {
        "gen_ai.operation.name": "execute_tool",
        "openinference.span.kind": "TOOL",
        "gen_ai.tool.name": name,
        "tool.name": name,
    }
    if isinstance(call_id := facts.get("tool_call_id"), str):
        known |= {"gen_ai.tool.call.id": call_id, "tool.id": call_id}
    return known | _named(facts, {"exit_code": "process.exit.code"})


def session_attributes(session: str | None) -> Attributes:
    """Of everything that belongs to one of OpenClaw's sessions."""
    return {} if session is None else {"gen_ai.conversation.id": label(session), "session.id": label(session)}


def place_attributes(facts: dict[str, Fact]) -> Attributes:
    """Where it stands in the evidence."""
    names = {"event_id": "critiqor.event_id", "end_event_id": "critiqor.end_event_id"}
    return _named(facts, {**names, "agent_run_id": "critiqor.agent_run_id"})


def error_type(facts: dict[str, Fact]) -> str:
    """What kind of error it was: as the provider classifies it, or how the command ended."""
    if isinstance(category := facts.get("error_category"), str) and category:
        return category
    code = facts.get("exit_code")
    return f"exit_code_{code}" if isinstance(code, int) and not isinstance(code, bool) and code else OTHER_ERROR


def exception_attributes(kind: str, error: str | None) -> Attributes:
    """Of the event that tells of an error; without its words where content is not wanted."""
    return {"exception.type": kind, **({"exception.message": error} if error else {})}


def finding_attributes(finding: Finding, recorded: Recorded) -> Attributes:
    """Of a finding.

    Its title, its explanation and its cause quote what was done and said: where content is not wanted, what its type
    means in any run is all that is told.
    """
    told = f"{finding.title}. {finding.explanation}" if recorded.content else _meaning(finding.type, recorded)
    cause: Attributes = {"critiqor.finding.cause": label(finding.cause)} if recorded.content else {}
    return {
        "gen_ai.evaluation.name": label(finding.type),
        "gen_ai.evaluation.score.value": float(finding.impact.trust_points),
        "gen_ai.evaluation.score.label": finding.severity,
        "gen_ai.evaluation.explanation": one_line(told, LONGEST_EXPLANATION),
        "critiqor.finding.id": label(finding.id),
        **cause,
        "critiqor.finding.confidence": finding.confidence,
        "critiqor.finding.occurrences": finding.occurrences,
    }


def verdict_attributes(diagnosis: Diagnosis, recorded: Recorded) -> Attributes:
    """Of the verdict on the whole run; its headline is the title of a finding, and told where that is."""
    worst = diagnosis.primary_diagnosis
    told = diagnosis.headline
    if not recorded.content:
        told = NOTHING_FOUND if worst is None else _meaning(worst.type, recorded)
    score: Attributes = {}
    if diagnosis.trust_score is not None:
        score["gen_ai.evaluation.score.value"] = float(diagnosis.trust_score)
    return {
        "gen_ai.evaluation.name": "trust",
        **score,
        "gen_ai.evaluation.score.label": diagnosis.readiness,
        "gen_ai.evaluation.explanation": one_line(told, LONGEST_EXPLANATION),
    }


def input_attributes(text: str, *, is_json: bool = False) -> Attributes:
    """What something was given."""
    kind = "application/json" if is_json else "text/plain"
    return {"input.value": _cut(text), "input.mime_type": kind}


def output_attributes(text: str) -> Attributes:
    """What came out of something."""
    return {"output.value": _cut(text), "output.mime_type": "text/plain"}


def arguments_attributes(arguments: Any) -> Attributes:
    """What a tool was given."""
    told = json_of(arguments)
    return {"gen_ai.tool.call.arguments": _cut(told), **input_attributes(told, is_json=True)}


def result_attributes(result: Any) -> Attributes:
    """What a tool gave back."""
    return {"gen_ai.tool.call.result": _cut(json_of(result)), **output_attributes(words_of(result))}


def question_attributes(text: str) -> Attributes:
    """What a user asked an agent."""
    message = {"role": "user", "parts": [{"type": "text", "content": lines(text, LONGEST_CONTENT)}]}
    return {"gen_ai.input.messages": json_of([message]), **input_attributes(text)}


def answer_attributes(text: str, reason: str | None) -> Attributes:
    """What an agent answered."""
    parts = [{"type": "text", "content": lines(text, LONGEST_CONTENT)}]
    return {"gen_ai.output.messages": _answered(parts, reason), **output_attributes(text)}


def reply_attributes(text: str, asked: Any, reason: str | None) -> Attributes:
    """What a model answered: its words, and the tools it asked for."""
    calls = [call for call in asked if isinstance(call, dict)] if isinstance(asked, list) else []
    parts: list[dict[str, Any]] = [{"type": "text", "content": lines(text, LONGEST_CONTENT)}] if text else []
    prefix = "llm.output_messages.0.message"
    told: Attributes = {f"{prefix}.role": "assistant"}
    if text:
        told |= {f"{prefix}.content": _cut(text), **output_attributes(text)}
    for number, call in enumerate(calls):
        call_id, name = call.get("id"), label(str(call.get("name") or "unknown tool"))
        told[f"{prefix}.tool_calls.{number}.tool_call.function.name"] = name
        part = {"type": "tool_call", "name": name}
        if isinstance(call_id, str):
            told[f"{prefix}.tool_calls.{number}.tool_call.id"] = part["id"] = label(call_id)
        parts.append(part)
    return {"gen_ai.output.messages": _answered(parts, reason), **told}


def finish_attributes(reason: str) -> Attributes:
    """Why a model stopped."""
    told = _finish(reason)
    return {"gen_ai.response.finish_reasons": [told], "llm.finish_reason": told}


def _answered(parts: list[dict[str, Any]], reason: str | None) -> str:
    finish = _finish(reason) if reason else "unknown"
    return json_of([{"role": "assistant", "parts": parts, "finish_reason": finish}])


def _finish(reason: str) -> str:
    return _FINISHED.get(reason, label(reason))


def _meaning(kind: str, recorded: Recorded) -> str:
    """What a type of failure means in any run; of one that is not known, no more than its name is told."""
    return recorded.meanings.get(kind, label(kind))


def _provider(facts: dict[str, Fact]) -> Attributes:
    if not isinstance(provider := facts.get("provider"), str):
        return {}
    name = _PROVIDERS.get(provider, provider)
    return {"gen_ai.provider.name": name, "llm.provider": provider}


def _tokens(facts: dict[str, Fact]) -> Attributes:
    """The conventions count what was read from a cache, or written to it, as input once more."""
    known: Attributes = {}
    for fact, names in _USAGE.items():
        if (count := _count(facts.get(fact))) is not None:
            known |= dict.fromkeys(names, count)
    read = [count for fact in _READ if (count := _count(facts.get(fact))) is not None]
    if read:
        known |= dict.fromkeys(("gen_ai.usage.input_tokens", "llm.token_count.prompt"), sum(read))
        known["llm.token_count.total"] = sum(read) + (_count(facts.get("output_tokens")) or 0)
    return known


def _count(fact: Fact | None) -> int | None:
    return int(fact) if isinstance(fact, int | float) and not isinstance(fact, bool) and fact >= 0 else None


def _named(facts: dict[str, Fact], names: dict[str, str]) -> Attributes:
    return {told: facts[name] for name, told in names.items() if name in facts}


def _cut(text: str) -> str:
    return lines(text, LONGEST_CONTENT)
