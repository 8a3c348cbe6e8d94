"""Lines of a transcript and what they say: from messages to lines, and from lines to what a model is given."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from critiqor.agentloop.sessions.messages import (
    AssistantMessage,
    Message,
    Text,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from critiqor.model import now_ms

_PART_TYPES = frozenset(("text", "thinking", "image", "toolCall"))


class Entry(NamedTuple):
    """One line after the first."""

    id: str
    parent: str | None
    message: Message | None
    """None for what is no message."""
    summary: str | None = None
    """What a compaction made of everything before `first_kept`."""
    first_kept: str | None = None
    kept: int = 0
    """How many entries after a compaction, itself included, are older than it."""


def saved_form(message: Message) -> dict[str, Any]:
    """A message as it stands in a transcript and in events."""
    saved: dict[str, Any] = msgspec.to_builtins(message)
    if saved.get("errorMessage", "") is None:
        del saved["errorMessage"]
    for part in saved["content"]:
        if part["type"] == "toolCall" and part["malformed"] is None:
            del part["malformed"]
    return saved


def message_from(saved: Any) -> Message | None:
    """The message that was saved; None for what is none, such as notes that OpenClaw keeps for itself."""
    if not isinstance(saved, dict):
        return None
    content = saved.get("content")
    if isinstance(content, str):
        saved = saved | {"content": [{"type": "text", "text": content}]}
    elif isinstance(content, list):
        known = [part for part in content if isinstance(part, dict) and part.get("type") in _PART_TYPES]
        saved = saved | {"content": known}
    try:
        message: Message = msgspec.convert(saved, type=Message)
    except (msgspec.ValidationError, RecursionError, ValueError):
        return None
    return message


def own_words(text: str, provider: str = "openclaw", model: str = "gateway-injected") -> AssistantMessage:
    """An answer that no model gave, named as OpenClaw names those."""
    return AssistantMessage(
        content=[Text(text)], provider=provider, model=model, usage=Usage(), stop_reason="stop", timestamp=now_ms()
    )


def context_of(entries: list[Entry]) -> list[Message]:
    """What the model is given of these entries."""
    messages: list[Message] = []
    for entry in entries:
        if entry.message is not None:
            messages.append(entry.message)
        elif entry.summary is not None:
            text = f"The conversation before this point was summarised:\n\n<summary>\n{entry.summary}\n</summary>"
            messages.append(UserMessage(content=[Text(text)], timestamp=0))
    return messages


def open_calls(entries: list[Entry]) -> list[ToolCall]:
    """Tool calls without a result, in order. Ids can repeat: the nth result of an id belongs to its nth call."""
    waiting: list[ToolCall] = []
    for entry in entries:
        message = entry.message
        if isinstance(message, AssistantMessage):
            waiting.extend(message.tool_calls)
        elif isinstance(message, ToolResultMessage):
            answered = next((index for index, call in enumerate(waiting) if call.id == message.tool_call_id), None)
            if answered is not None:
                del waiting[answered]
    return waiting


class SessionLine(NamedTuple):
    """The first line, which is no entry."""


def read_entry(data: bytes | None) -> Entry | SessionLine | None:
    """What a line says; None for a line that cannot be read."""
    try:
        value = msgspec.json.decode(data) if data is not None else None
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None
    if not isinstance(value, dict):
        return None
    if value.get("type") == "session":
        return SessionLine()
    entry_id, parent = value.get("id"), value.get("parentId")
    if not isinstance(entry_id, str) or not isinstance(parent, str | None):
        return None
    if value.get("type") == "compaction":
        summary, first = value.get("summary"), value.get("firstKeptEntryId")
        if isinstance(summary, str) and isinstance(first, str):
            return Entry(entry_id, parent, None, summary, first)
    return Entry(entry_id, parent, message_from(value.get("message")) if value.get("type") == "message" else None)


def branch_of(entries: list[Entry]) -> list[Entry]:
    """The way back from the last entry: OpenClaw rewrites history by beginning a new branch."""
    by_id = {entry.id: index for index, entry in enumerate(entries)}
    branch: list[Entry] = []
    index = len(entries) - 1
    while index >= 0:
        entry = entries[index]
        branch.append(entry)
        # A parent that is missing was on a line that is lost: then the line before is the best guess.
        before = by_id.get(entry.parent, index - 1) if entry.parent is not None else -1
        index = min(before, index - 1)
    branch.reverse()
    return branch


def after_compaction(entries: list[Entry], compaction: Entry) -> list[Entry]:
    """What is left of the entries for the model: the compaction, and what it kept."""
    kept = next((index for index, entry in enumerate(entries) if entry.id == compaction.first_kept), len(entries))
    return [compaction._replace(kept=1 + len(entries) - kept), *entries[kept:]]
