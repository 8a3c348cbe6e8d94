"""Entries of a transcript: parsing of lines, tool calls without a result, and the messages that the model receives."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from critiqor.agentloop.sessions.messages import (
    AssistantMessage,
    Message,
    Text,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    message_from_json,
)


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
