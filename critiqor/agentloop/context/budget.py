"""How much of a model's context window is used, and where history can be cut."""

from __future__ import annotations

import msgspec

from critiqor.agentloop.sessions.messages import (
    AssistantMessage,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResultMessage,
)
from critiqor.agentloop.sessions.transcript_entries import Entry
from critiqor.agentloop.settings import CompactionSettings, ModelEntry

BYTES_A_TOKEN = 4
IMAGE_TOKENS = 1_200
SMALLEST_ANSWER = 256
"""Tokens that a model is given to answer in any case; whether they fit is for the provider to say."""


def tokens_of_text(text: str) -> int:
    """About how many tokens a text has. Bytes, because scripts that need more tokens need more bytes as well."""
    return (len(text.encode("utf-8", "replace")) + BYTES_A_TOKEN - 1) // BYTES_A_TOKEN


def tokens_of(message: Message) -> int:
    """About how many tokens a message has."""
    return 4 + sum(_tokens_of_part(part) for part in message.content)


def used_tokens(entries: list[Entry], fixed: int, *, counted: bool = True) -> int:
    """About how many tokens the next request has: what the last answer told, and what came after it, or an estimate.

    `fixed` is for the system prompt and the tools, which an answer has counted already. Without `counted` it is the
    estimate alone.
    """
    estimate = fixed + sum(tokens_of(entry.message) for entry in entries if entry.message is not None)
    estimate += sum(tokens_of_text(entry.summary) for entry in entries if entry.summary is not None)
    # Answers that a compaction kept were counted together with what it left out.
    oldest = (entries[0].kept if entries else 0) if counted else len(entries)
    since = 0
    for entry in reversed(entries[oldest:]):
        message = entry.message
        if isinstance(message, AssistantMessage) and message.usage.total_tokens:
            return max(estimate, since + message.usage.total_tokens)
        since += tokens_of(message) if message is not None else 0
    return estimate


def limit_of(model: ModelEntry, compaction: CompactionSettings) -> int:
    """Tokens above which history is summarised before the next request."""
    return model.context_window - compaction.reserve(model.context_window)


def answer_tokens(model: ModelEntry, used: int) -> int:
    """How long an answer may be with so much used already."""
    return max(SMALLEST_ANSWER, min(model.max_tokens, model.context_window - used))


def cut(entries: list[Entry], keep_tokens: int) -> int | None:
    """The index of the first entry to keep; None where nothing can be left out.

    Tool results stay with the message that asked for them, and the last message always stays.
    """
    kept = 0
    place: int | None = None
    for index in range(len(entries) - 1, 0, -1):
        message = entries[index].message
        if message is None:
            continue
        kept += tokens_of(message)
        if place is not None and kept > keep_tokens:
            break
        if not isinstance(message, ToolResultMessage):
            place = index
    return place if place is not None and any(entry.message for entry in entries[:place]) else None


def _tokens_of_part(part: Text | Thinking | Image | ToolCall) -> int:
    if isinstance(part, Text):
        return tokens_of_text(part.text)
    if isinstance(part, Thinking):
        return tokens_of_text(part.thinking)
    if isinstance(part, Image):
        return IMAGE_TOKENS
    return tokens_of_text(part.name) + len(msgspec.json.encode(part.arguments)) // BYTES_A_TOKEN
