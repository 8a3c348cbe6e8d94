"""Messages of a session, as stored in its transcript and sent to the model, with token usage and cost."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from critiqor.model import now_ms

StopReason = Literal["stop", "toolUse", "length", "error", "aborted"]
_PART_TYPES = frozenset(("text", "thinking", "image", "toolCall"))


class Cost(msgspec.Struct, frozen=True, rename="camel"):
    """Cost of model calls, in US dollars."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0
    total: float = 0.0


class Usage(msgspec.Struct, frozen=True, rename="camel"):
    """Token counts of one or several model calls."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    total_tokens: int = 0
    cost: Cost = Cost()


class Text(msgspec.Struct, frozen=True, tag="text"):
    """Text content."""

    text: str


class Thinking(msgspec.Struct, frozen=True, tag="thinking"):
    """Reasoning of the model."""

    thinking: str


class Image(msgspec.Struct, frozen=True, tag="image", rename="camel"):
    """An image in base64. `data` is empty where the content was removed."""

    mime_type: str
    data: str = ""


class ToolCall(msgspec.Struct, frozen=True, tag="toolCall"):
    """A tool call that the model requests."""

    id: str
    name: str
    arguments: dict[str, Any] = {}
    malformed: str | None = None
    """Why the arguments could not be parsed; such a call is not run."""


class UserMessage(msgspec.Struct, frozen=True, kw_only=True, tag_field="role", tag="user"):
    """A message to the agent."""

    content: list[Text | Image]
    timestamp: int
    """Milliseconds since 1970."""


class AssistantMessage(msgspec.Struct, frozen=True, kw_only=True, tag_field="role", tag="assistant", rename="camel"):
    """The model's response of one model call."""

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
        """The text content, without other parts."""
        return "".join(part.text for part in self.content if isinstance(part, Text))

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The requested tool calls, in order."""
        return [part for part in self.content if isinstance(part, ToolCall)]


class ToolResultMessage(msgspec.Struct, frozen=True, kw_only=True, tag_field="role", tag="toolResult", rename="camel"):
    """The result of a tool call."""

    tool_call_id: str
    tool_name: str
    content: list[Text | Image]
    details: dict[str, Any] = {}
    """Structured data in addition to the text, such as `exitCode`."""
    is_error: bool = False
    timestamp: int

    @property
    def text(self) -> str:
        """The text content, without other parts."""
        return "\n".join(part.text for part in self.content if isinstance(part, Text))


Message = UserMessage | AssistantMessage | ToolResultMessage


def message_to_json(message: Message) -> dict[str, Any]:
    """Return a session message as JSON data, as in transcripts and hook events."""
    saved: dict[str, Any] = msgspec.to_builtins(message)
    if saved.get("errorMessage", "") is None:
        del saved["errorMessage"]
    for part in saved["content"]:
        if part["type"] == "toolCall" and part["malformed"] is None:
            del part["malformed"]
    return saved


def message_from_json(saved: Any) -> Message | None:
    """Return the session message of JSON data, or None if it is not one, such as OpenClaw's internal notes."""
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


def add_usage(one: Usage, other: Usage) -> Usage:
    """Return the sum of the token usages of two messages."""
    sums = {name: getattr(one, name) + getattr(other, name) for name in Usage.__struct_fields__ if name != "cost"}
    cost = {name: getattr(one.cost, name) + getattr(other.cost, name) for name in one.cost.__struct_fields__}
    return Usage(**sums, cost=type(one.cost)(**cost))


def without_images(content: list[Text | Image]) -> list[Text | Image]:
    """Return the content of a message without the bytes of its images, for hooks and event listeners."""
    return [Image(part.mime_type) if isinstance(part, Image) else part for part in content]
