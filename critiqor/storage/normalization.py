"""Normalize recorded events: canonical event names and the full envelope."""

from __future__ import annotations

from typing import Any, cast

import msgspec
from msgspec.structs import force_setattr

from critiqor.model import Event, EventType
from critiqor.model.event import UNKNOWN

_CANONICAL_NAMES = {
    "tool_result": EventType.TOOL_OUTPUT,
    "tool_execution_end": EventType.TOOL_OUTPUT,
    "memory_search": EventType.MEMORY,
    "memory_get": EventType.MEMORY,
    "after_provider_response": EventType.TOKEN_USAGE,
}


def normalize_plugin_event(event: dict[str, Any]) -> dict[str, Any]:
    """Return a recorder's event with its canonical name and the full envelope.

    The recorded name is kept as `raw_event_type`. Members that the recorder left out of the envelope are taken from
    the payload. Never raises.
    """
    payload = event.get("payload")
    payload = payload if isinstance(payload, dict) else {} if payload is None else {"value": payload}
    kind = _text(event.get("event_type") or event.get("type")) or UNKNOWN
    error = event.get("error")
    error = error.get("message", error) if isinstance(error, dict) else error
    duration = event.get("duration_ms")
    has_failed = payload.get("isError") is True
    layer = "tool_hooks" if kind.startswith("tool_") else "extension_api"
    normalized = Event(
        event_id=_text(event.get("event_id")) or "",
        event_type=kind,
        raw_event_type=_text(event.get("raw_event_type")),
        timestamp=_text(event.get("timestamp")) or "",
        source_layer=_text(event.get("source_layer")) or layer,
        session_key=_text(event.get("session_key") or payload.get("sessionKey")),
        agent_run_id=_text(event.get("agent_run_id") or payload.get("runId")),
        tool_name=_text(event.get("tool_name") or payload.get("toolName") or payload.get("tool_name")),
        tool_call_id=_text(event.get("tool_call_id") or payload.get("toolCallId") or payload.get("tool_call_id")),
        status=_text(event.get("status")) or ("error" if has_failed else "ok"),
        error=_text(error),
        duration_ms=duration if isinstance(duration, int | float) else None,
        payload=payload,
    )
    set_canonical_name(normalized)
    return cast("dict[str, Any]", msgspec.to_builtins(normalized))


def set_canonical_name(event: Event) -> None:
    """Give an event its canonical name; the recorded name is kept as `raw_event_type`.

    The event was just read and nobody else has it: changing it is far cheaper than making another one.
    """
    recorded = event.event_type
    canonical = _CANONICAL_NAMES.get(recorded)
    if canonical is not None:
        force_setattr(event, "event_type", canonical)
        force_setattr(event, "raw_event_type", recorded)
    elif event.raw_event_type is None:
        force_setattr(event, "raw_event_type", recorded)


def _text(value: object) -> str | None:
    return None if value is None else str(value)
