"""The text of an entry of a conversation, and what a tool call was given and returned."""

from __future__ import annotations

import json
from typing import Any

from critiqor.conversation.entries import Entry, message_text
from critiqor.model import Event
from critiqor.model.formatting import format_duration, format_number
from critiqor.model.sanitize import excerpt

SPEAKING_ARGUMENTS = ("command", "cmd", "script", "path", "file_path", "url", "query", "pattern", "message", "task")
"""Arguments that say what a tool call does."""


def tool_result(output: Event) -> Any:
    """Return the result that an entry shows for a tool call; None if none was recorded."""
    return output.payload.get("result", output.payload.get("output"))


def entry_text(entry: Entry, event: Event, end: Event | None = None) -> str:
    """Return the words of a message, or a sentence about an interruption, whose end is another event if it has one."""
    if entry.kind in ("user", "agent", "note"):
        return message_text(event)
    payload = (end or event).payload
    if entry.kind == "compaction":
        before, after = payload.get("tokensBefore"), payload.get("tokensAfter")
        sizes = [format_number(size) for size in (before, after) if isinstance(size, int | float)]
        said = ["The history was compacted", f"{' to '.join(sizes)} tokens" if sizes else "", _reason(payload)]
        text = message_text(event)
        return ": ".join(part for part in said if part) + (f"\n{text}" if text else "")
    if entry.kind == "retry":
        attempt, delay = payload.get("attempt"), payload.get("delayMs")
        said = [
            f"Attempt {attempt}" if isinstance(attempt, int) else "Another attempt",
            f"after {format_duration(delay)}" if isinstance(delay, int | float) else "",
        ]
        return ": ".join(part for part in (" ".join(part for part in said if part), _reason(payload, event)) if part)
    what = {"token_usage": "The model call failed", "agent_end": "The agent run ended"}
    return ": ".join(part for part in (what.get(event.event_type, "Error"), _reason(payload, event)) if part)


def _reason(payload: dict[str, Any], event: Event | None = None) -> str:
    if event is not None and event.error:
        return event.error
    for name in ("reason", "error", "stopReason", "stop_reason", "errorCategory"):
        if isinstance(payload.get(name), str):
            return str(payload[name])
    return "aborted" if payload.get("aborted") is True else ""


def call_title(arguments: object) -> str:
    """Return a one-line description of a tool call."""
    if isinstance(arguments, dict):
        for name in SPEAKING_ARGUMENTS:
            if isinstance(arguments.get(name), str) and arguments[name]:
                return excerpt(arguments[name], 160)
    return "" if arguments in (None, {}) else excerpt(json.dumps(arguments, ensure_ascii=False), 160)
