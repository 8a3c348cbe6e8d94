"""Messages of a session, as they stand in its transcript and go to the model."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

StopReason = Literal["stop", "toolUse", "length", "error", "aborted"]


class Cost(msgspec.Struct, frozen=True, rename="camel"):
    """What a model call cost, in US dollars."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0
    total: float = 0.0


class Usage(msgspec.Struct, frozen=True, rename="camel"):
    """Tokens of one model call, or of several together."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    total_tokens: int = 0
    cost: Cost = Cost()


class Text(msgspec.Struct, frozen=True, tag="text"):
    """Words."""

    text: str


class Thinking(msgspec.Struct, frozen=True, tag="thinking"):
    """What the model reasoned before it spoke."""

    thinking: str


class Image(msgspec.Struct, frozen=True, tag="image", rename="camel"):
    """A picture; `data` is empty where only the fact that there was one is kept."""

    mime_type: str
    data: str = ""


class ToolCall(msgspec.Struct, frozen=True, tag="toolCall"):
    """The model asks for a tool."""

    id: str
    name: str
    arguments: dict[str, Any] = {}
    malformed: str | None = None
    """Why its arguments could not be read; the tool is not run then."""


class UserMessage(msgspec.Struct, frozen=True, kw_only=True, tag_field="role", tag="user"):
    """What somebody asked of the agent."""

    content: list[Text | Image]
    timestamp: int
    """Milliseconds since 1970."""


class AssistantMessage(msgspec.Struct, frozen=True, kw_only=True, tag_field="role", tag="assistant", rename="camel"):
    """What the model answered in one call."""

    content: list[Text | Thinking | ToolCall]
    provider: str
    model: str
    api: str = "openai-completions"
    usage: Usage
    stop_reason: StopReason
    error_message: str | None = None
    timestamp: int

    @property
    def text(self) -> str:
        """Its words."""
        return "".join(part.text for part in self.content if isinstance(part, Text))

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The tools that it asks for, in order."""
        return [part for part in self.content if isinstance(part, ToolCall)]


class ToolResultMessage(msgspec.Struct, frozen=True, kw_only=True, tag_field="role", tag="toolResult", rename="camel"):
    """What a tool gave back."""

    tool_call_id: str
    tool_name: str
    content: list[Text | Image]
    details: dict[str, Any] = {}
    """Facts beside the text, such as `exitCode`."""
    is_error: bool = False
    timestamp: int

    @property
    def text(self) -> str:
        """Its words."""
        return "\n".join(part.text for part in self.content if isinstance(part, Text))


Message = UserMessage | AssistantMessage | ToolResultMessage
