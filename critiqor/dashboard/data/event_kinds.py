"""Kinds of events, which decide their icons and colours, and the events that lists fold."""

from __future__ import annotations

from critiqor.model.event import HOUSEKEEPING, EventType

_KINDS = {
    "tool_call": "tool",
    "tool_output": "tool",
    "before_provider_request": "model",
    "token_usage": "model",
    "provider_retry": "retry",
    "memory_event": "memory",
    "message_end": "message",
    "input": "message",
    "compaction_start": "compaction",
    "compaction_end": "compaction",
    "session_before_compact": "compaction",
    "session_compact": "compaction",
    "turn_start": "turn",
    "turn_end": "turn",
    "agent_start": "agent",
    "agent_end": "agent",
    "subagent_spawned": "agent",
    "subagent_ended": "agent",
    "error_event": "error",
    "process_start": "process",
    "process_end": "process",
    "process_output": "process",
    "resource_usage": "process",
    "gateway_start": "process",
    "gateway_stop": "process",
}
PLUMBING = HOUSEKEEPING | {
    EventType.STATE_TRANSITION,
    EventType.GUARD_STARTED,
    "agent_start",
    "agent_end",
    "turn_start",
    "turn_end",
    "before_provider_request",
    "before_agent_start",
    "message_start",
    "session_before_compact",
    "resource_usage",
}
"""Events that only say that something begins or ends. Lists fold them, unless they failed."""


_NAMES = {
    "tool_call": "tool call",
    "tool_output": "tool result",
    "before_provider_request": "model request",
    "token_usage": "model call",
    "provider_retry": "retry of a request",
    "memory_event": "memory lookup",
    "message_end": "message",
    "input": "user message",
    "agent_start": "agent run begins",
    "agent_end": "agent run ends",
    "turn_start": "turn begins",
    "turn_end": "turn ends",
    "error_event": "error",
    "state_transition": "state of the run",
    "run_imported": "import",
}


def event_name(event_type: str) -> str:
    """Return an event type in words; the page of the event shows its recorded name, too."""
    return _NAMES.get(event_type, event_type.replace("_", " "))


def is_plumbing(event_type: str) -> bool:
    """Return whether an event of this type says nothing by itself, if it did not fail."""
    return event_type in PLUMBING


def kind_of(event_type: str) -> str:
    """Return the kind of an event type; `other` for unknown types."""
    return _KINDS.get(event_type, "other")
