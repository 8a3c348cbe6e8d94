"""Interface of a model client: requests, streamed deltas of answers, and failures."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Literal, Protocol

import msgspec

from critiqor.agentloop.sessions.messages import Message

FailureKind = Literal[
    "timeout", "network", "auth", "billing", "rate_limit", "server", "context", "malformed", "rejected", "aborted"
]


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request to a model."""

    provider: str
    model: str
    system_prompt: str
    messages: list[Message]
    tools: list[dict[str, Any]]
    """JSON schemas of the tools that the model may call, in the format of the completions API."""
    max_tokens: int
    thinking: str = "off"


class TextDelta(msgspec.Struct, frozen=True):
    """More text of the answer."""

    text: str


class ThinkingDelta(msgspec.Struct, frozen=True):
    """More reasoning."""

    text: str


class ToolCallDelta(msgspec.Struct, frozen=True):
    """More of a tool call; id and name come with its first delta."""

    index: int
    id: str | None = None
    name: str | None = None
    arguments: str = ""


class UsageDelta(msgspec.Struct, frozen=True):
    """Number of tokens that the call has used so far."""

    input: int
    output: int
    cache_read: int = 0
    cache_write: int = 0


class Finished(msgspec.Struct, frozen=True):
    """End of the answer, with the finish reason of the provider."""

    reason: str


Delta = TextDelta | ThinkingDelta | ToolCallDelta | UsageDelta | Finished


class ModelFailureError(Exception):
    """A model call failed. `kind` is the cause as the diagnosis names it; `status` is the HTTP status, if any."""

    def __init__(self, message: str, kind: FailureKind, status: int | None = None, retry_after: float | None = None):
        super().__init__(message)
        self.kind: FailureKind = kind
        self.status = status
        self.retry_after = retry_after
        """Seconds to wait before the next request, if the provider gave them."""


class ModelStream(Protocol):
    """Streamed answer to one request."""

    request_bytes: int
    """Size of the request body."""
    response_bytes: int
    """Size of the response so far."""

    def __aiter__(self) -> AsyncIterator[Delta]: ...


class ModelClient(Protocol):
    """Client of a model provider."""

    def ask(self, request: ModelRequest) -> ModelStream:
        """Return the answer to a request.

        Iterating sends the request and raises `ModelFailureError`; cancelling closes the connection.
        """
        ...
