"""Token budget: how much of a context window messages use, and how much is left for an answer."""

from __future__ import annotations

import msgspec

from critiqor.agentloop.sessions.messages import (
    AssistantMessage,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
)
from critiqor.agentloop.sessions.transcript_entries import Entry
from critiqor.agentloop.settings import CompactionSettings, ModelEntry

BYTES_PER_TOKEN = 4
IMAGE_TOKENS = 1_200
MIN_ANSWER_TOKENS = 256
"""Minimum number of tokens for an answer, even if the provider may reject the request as too long."""


def text_tokens(text: str) -> int:
    """Estimate the tokens of a text from its bytes: scripts that need more tokens also need more bytes."""
    return (len(text.encode("utf-8", "replace")) + BYTES_PER_TOKEN - 1) // BYTES_PER_TOKEN


def message_tokens(message: Message) -> int:
    """Estimate the tokens of a message."""
    return 4 + sum(_part_tokens(part) for part in message.content)


def used_tokens(entries: list[Entry], fixed: int, *, counted: bool = True) -> int:
    """Estimate the tokens of the next request: the usage that the last answer reported, and what came after it.

    `fixed` counts the system prompt and the tools, which the reported usage includes. With `counted=False` the
    reported usage is ignored.
    """
    estimate = fixed + sum(message_tokens(entry.message) for entry in entries if entry.message is not None)
    estimate += sum(text_tokens(entry.summary) for entry in entries if entry.summary is not None)
    # The reported usage of answers before a compaction includes what the compaction removed.
    oldest = (entries[0].kept if entries else 0) if counted else len(entries)
    since = 0
    for entry in reversed(entries[oldest:]):
        message = entry.message
        if isinstance(message, AssistantMessage) and message.usage.total_tokens:
            return max(estimate, since + message.usage.total_tokens)
        since += message_tokens(message) if message is not None else 0
    return estimate


def compaction_threshold(model: ModelEntry, compaction: CompactionSettings) -> int:
    """Return the number of tokens above which the history is compacted before the next request."""
    return model.context_window - compaction.reserve(model.context_window)


def answer_tokens(model: ModelEntry, used: int) -> int:
    """Return the maximum length of an answer in tokens, given how many are used."""
    return max(MIN_ANSWER_TOKENS, min(model.max_tokens, model.context_window - used))


def _part_tokens(part: Text | Thinking | Image | ToolCall) -> int:
    if isinstance(part, Text):
        return text_tokens(part.text)
    if isinstance(part, Thinking):
        return text_tokens(part.thinking)
    if isinstance(part, Image):
        return IMAGE_TOKENS
    return text_tokens(part.name) + len(msgspec.json.encode(part.arguments)) // BYTES_PER_TOKEN
