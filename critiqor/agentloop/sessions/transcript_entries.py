"""Entries of a transcript: messages to and from JSON, parsing of lines, and the messages that the model sees."""

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
    """One line of a transcript after the session header."""

    id: str
    parent: str | None
    message: Message | None
    """None for entries of other kinds, such as model changes and compactions."""
    summary: str | None = None
    """Summary of everything before `first_kept`, for a compaction."""
    first_kept: str | None = None
    """Id of the oldest entry that a compaction kept."""
    kept: int = 0
    """For a compaction: number of entries that it left visible, itself included."""


def message_to_json(message: Message) -> dict[str, Any]:
    """Return a message as JSON data, as in transcripts and hook events."""
    saved: dict[str, Any] = msgspec.to_builtins(message)
    if saved.get("errorMessage", "") is None:
        del saved["errorMessage"]
    for part in saved["content"]:
        if part["type"] == "toolCall" and part["malformed"] is None:
            del part["malformed"]
    return saved


def message_from_json(saved: Any) -> Message | None:
    """Return the message of JSON data, or None if it is not a message, such as OpenClaw's internal notes."""
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


def build_injected_message(text: str, provider: str = "openclaw", model: str = "gateway-injected") -> AssistantMessage:
    """Return an assistant message that no model wrote.

    OpenClaw uses these names of provider and model for such messages.
    """
    return AssistantMessage(
        content=[Text(text)], provider=provider, model=model, usage=Usage(), stop_reason="stop", timestamp=now_ms()
    )


def messages_for_model(entries: list[Entry]) -> list[Message]:
    """Return the messages that the model receives, with compactions as summary messages."""
    messages: list[Message] = []
    for entry in entries:
        if entry.message is not None:
            messages.append(entry.message)
        elif entry.summary is not None:
            text = f"The conversation before this point was summarised:\n\n<summary>\n{entry.summary}\n</summary>"
            messages.append(UserMessage(content=[Text(text)], timestamp=0))
    return messages


def find_open_calls(entries: list[Entry]) -> list[ToolCall]:
    """Return tool calls without a result, in order. Ids can repeat: the nth result of an id belongs to its nth call."""
    waiting: list[ToolCall] = []
    for entry in entries:
        message = entry.message
        if isinstance(message, AssistantMessage):
            waiting.extend(message.tool_calls)
        elif isinstance(message, ToolResultMessage):
            index = next((place for place, call in enumerate(waiting) if call.id == message.tool_call_id), None)
            if index is not None:
                del waiting[index]
    return waiting


class SessionHeader(NamedTuple):
    """The first line of a transcript, which is not an entry."""


def parse_entry(data: bytes | None) -> Entry | SessionHeader | None:
    """Parse a line of a transcript. Return None for an unreadable line."""
    try:
        value = msgspec.json.decode(data) if data is not None else None
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None
    if not isinstance(value, dict):
        return None
    if value.get("type") == "session":
        return SessionHeader()
    entry_id, parent = value.get("id"), value.get("parentId")
    if not isinstance(entry_id, str) or not isinstance(parent, str | None):
        return None
    if value.get("type") == "compaction":
        summary, first = value.get("summary"), value.get("firstKeptEntryId")
        if isinstance(summary, str) and isinstance(first, str):
            return Entry(entry_id, parent, None, summary, first)
    return Entry(entry_id, parent, message_from_json(value.get("message")) if value.get("type") == "message" else None)


def current_branch(entries: list[Entry]) -> list[Entry]:
    """Return the ancestors of the last entry, oldest first: OpenClaw rewrites history by starting a new branch."""
    by_id = {entry.id: index for index, entry in enumerate(entries)}
    branch: list[Entry] = []
    index = len(entries) - 1
    while index >= 0:
        entry = entries[index]
        branch.append(entry)
        # A missing parent was on an unreadable line; the preceding line is the best guess.
        before = by_id.get(entry.parent, index - 1) if entry.parent is not None else -1
        index = min(before, index - 1)
    branch.reverse()
    return branch


def apply_compaction(entries: list[Entry], compaction: Entry) -> list[Entry]:
    """Return the entries that remain visible after a compaction: the compaction itself and what it kept."""
    kept = next((index for index, entry in enumerate(entries) if entry.id == compaction.first_kept), len(entries))
    return [compaction._replace(kept=1 + len(entries) - kept), *entries[kept:]]
