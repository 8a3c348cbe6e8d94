"""The time of an event in a trace, and the facts about it: ids, names and numbers. Contents stay in the evidence."""

from __future__ import annotations

from typing import Any

from critiqor.diagnosis.prices.price import price_of
from critiqor.model.event import Event, EventType
from critiqor.model.timestamps import ms_from_iso, us_of
from critiqor.model.trace import Fact, label

_MAX_NUMBER = 1 << 53
"""Limit of whole numbers: a double cannot represent all larger ones."""
_OUTSIDE_OF_TRACES = frozenset((EventType.STATE_TRANSITION, EventType.RUN_IMPORTED))
"""Event types of the run record that are left out of traces: they can be days later than the run."""
_FACT_NAMES = {
    "aborted": "aborted",
    "agent_id": "agent_id",
    "attempt": "attempt",
    "callId": "call_id",
    "childRunId": "child_run_id",
    "childSessionKey": "child_session_key",
    "compactedCount": "compacted_messages",
    "completed": "completed",
    "contextTokenBudget": "context_token_budget",
    "delayMs": "delay_ms",
    "errorCategory": "error_category",
    "exit_code": "exit_code",
    "left_running": "left_running",
    "lookup": "lookup",
    "maxAttempts": "max_attempts",
    "message_id": "message_id",
    "mode": "mode",
    "model": "model",
    "openclaw_version": "openclaw_version",
    "outcome": "outcome",
    "parent_tool_call_id": "parent_tool_call_id",
    "provider": "provider",
    "reason": "reason",
    "requestPayloadBytes": "request_bytes",
    "role": "role",
    "stop_reason": "stop_reason",
    "stopReason": "stop_reason",
    "timeToFirstByteMs": "first_byte_ms",
    "tokensAfter": "tokens_after",
    "tokensBefore": "tokens_before",
    "trigger": "trigger",
    "turn": "turn",
}
"""Fields of a payload that are included in a trace, with their names there."""
_USAGE_NAMES = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cacheRead": "cache_read_tokens",
    "cacheWrite": "cache_write_tokens",
}


def facts_of(event: Event) -> dict[str, Fact]:
    """Return the facts of an event that are included in a trace, sorted by name."""
    payload = event.payload
    facts: dict[str, Fact] = {"event_id": label(event.event_id)}
    for name in ("agent_run_id", "tool_call_id"):
        if (value := getattr(event, name)) is not None:
            facts[name] = label(value)
    for name in _FACT_NAMES.keys() & payload.keys():
        if (fact := _fact(payload[name])) is not None:
            facts[_FACT_NAMES[name]] = fact
    usage = payload.get("usage")
    if isinstance(usage, dict):
        facts.update(_usage_facts(usage))
        facts.update(_cost_facts(usage, payload))
    if event.duration_ms is not None and (duration := _fact(event.duration_ms)) is not None:
        facts["duration_ms"] = duration
    return dict(sorted(facts.items()))


def event_time_us(event: Event) -> int | None:
    """Return the time of an event in microseconds since 1970; None for an event that is not part of a trace."""
    if event.event_type in _OUTSIDE_OF_TRACES:
        return None
    moment = ms_from_iso(event.timestamp)
    return None if moment is None else us_of(moment)


def _usage_facts(usage: dict[str, Any]) -> dict[str, Fact]:
    facts = {fact_name: _fact(usage.get(name)) for name, fact_name in _USAGE_NAMES.items()}
    return {name: fact for name, fact in facts.items() if fact is not None}


def _cost_facts(usage: dict[str, Any], payload: dict[str, Any]) -> dict[str, Fact]:
    price = price_of(usage, payload.get("provider"), payload.get("model"))
    if price is None or (usd := _fact(price.usd)) is None:
        return {}
    return {"cost_usd": usd, "cost_is_estimated": True} if price.is_estimated else {"cost_usd": usd}


def _fact(value: object) -> Fact | None:
    if isinstance(value, str):
        return label(value)
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float) and -_MAX_NUMBER < value < _MAX_NUMBER:
        return value
    return None
