"""What the loop wants of a model: a request goes out, and pieces of the answer come back as they are made."""

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
    """JSON schemas of the tools that the model may ask for, as functions of the completions API."""
    max_tokens: int
    thinking: str = "off"


class TextDelta(msgspec.Struct, frozen=True):
    """More words."""

    text: str


class ThinkingDelta(msgspec.Struct, frozen=True):
    """More reasoning."""

    text: str


class ToolCallDelta(msgspec.Struct, frozen=True):
    """More of a tool call; id and name come with its first piece."""

    index: int
    id: str | None = None
    name: str | None = None
    arguments: str = ""


class UsageDelta(msgspec.Struct, frozen=True):
    """How many tokens the call used."""

    input: int
    output: int
    cache_read: int = 0
    cache_write: int = 0


class Finished(msgspec.Struct, frozen=True):
    """The model is done, and why."""

    reason: str


Delta = TextDelta | ThinkingDelta | ToolCallDelta | UsageDelta | Finished


class ModelFailureError(Exception):
    """A model call failed. `kind` says why, in words of the diagnosis; `status` is that of HTTP, if there was one."""

    def __init__(self, message: str, kind: FailureKind, status: int | None = None, retry_after: float | None = None):
        super().__init__(message)
        self.kind: FailureKind = kind
        self.status = status
        self.retry_after = retry_after
        """Seconds that the provider asks to wait."""


class ModelStream(Protocol):
    """The answer to one request."""

    request_bytes: int
    """Size of the request body."""
    response_bytes: int
    """What has come so far."""

    def __aiter__(self) -> AsyncIterator[Delta]: ...


class ModelClient(Protocol):
    """A model that can be asked."""

    def ask(self, request: ModelRequest) -> ModelStream:
        """Ask once. Iterating sends the request; failures are raised as `ModelFailureError`; cancelling hangs up."""
        ...
