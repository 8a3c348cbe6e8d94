"""Request bodies for the chat completions API.

Servers reject a conversation in which a tool call has no result right after it, or a result has no call. An
interrupted run leaves such a history behind, so it is repaired here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from critiqor.agentloop.models.model_client import ModelRequest
from critiqor.agentloop.sessions.messages import (
    AssistantMessage,
    Image,
    Message,
    Text,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from critiqor.agentloop.tools.tool import Tool

NO_RESULT = "No result provided"
_EFFORTS = {"minimal": "minimal", "low": "low", "medium": "medium", "high": "high", "xhigh": "high", "max": "high"}


def request_body(request: ModelRequest) -> bytes:
    """Return the JSON body of a request to the completions API."""
    document: dict[str, Any] = {
        "model": request.model,
        "messages": [*_system(request.system_prompt), *convert_messages(request.messages)],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_completion_tokens": request.max_tokens,
    }
    if request.tools:
        document |= {"tools": request.tools, "tool_choice": "auto"}
    effort = _EFFORTS.get(request.thinking)
    if effort is not None:
        document["reasoning_effort"] = effort
    return msgspec.json.encode(document)


def tool_schemas(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    """Return the tools in the format of the completions API."""
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
        }
        for tool in tools
    ]


def convert_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Convert messages to the format of the completions API."""
    converted: list[dict[str, Any]] = []
    position = 0
    while position < len(messages):
        message = messages[position]
        position += 1
        if isinstance(message, UserMessage):
            converted.append({"role": "user", "content": _parts(message.content)})
        elif isinstance(message, AssistantMessage):
            results: dict[str, ToolResultMessage] = {}
            while position < len(messages) and isinstance(result := messages[position], ToolResultMessage):
                results.setdefault(result.tool_call_id, result)
                position += 1
            converted += _exchange(message, results)
        # A result without a call is left out: its call is no longer part of the history.
    return converted


def _exchange(message: AssistantMessage, results: dict[str, ToolResultMessage]) -> list[dict[str, Any]]:
    """Convert an answer and the results of its tool calls."""
    calls = message.tool_calls
    if message.stop_reason in ("error", "aborted"):
        calls = [call for call in calls if call.id in results]
    answer: dict[str, Any] = {"role": "assistant", "content": message.text or None}
    if calls:
        answer["tool_calls"] = [_call(call) for call in calls]
    elif not message.text:
        return []
    converted = [answer]
    pictures: list[Image] = []
    for call in calls:
        result = results.get(call.id)
        converted.append({"role": "tool", "content": _result_text(result), "tool_call_id": call.id})
        pictures += _pictures(result.content) if result is not None else []
    if pictures:
        # The API accepts only text in a tool result, so pictures follow in a user message.
        converted.append({"role": "user", "content": _parts([Text("Images from the tools above:"), *pictures])})
    return converted


def _system(prompt: str) -> list[dict[str, Any]]:
    return [{"role": "system", "content": prompt}] if prompt else []


def _call(call: ToolCall) -> dict[str, Any]:
    arguments = msgspec.json.encode(call.arguments).decode()
    return {"id": call.id, "type": "function", "function": {"name": call.name or "unknown", "arguments": arguments}}


def _result_text(result: ToolResultMessage | None) -> str:
    if result is None:
        return NO_RESULT
    return result.text or ("(see the image below)" if _pictures(result.content) else "(no output)")


def _pictures(content: Iterable[Text | Image]) -> list[Image]:
    return [part for part in content if isinstance(part, Image) and part.data]


def _parts(content: Iterable[Text | Image]) -> list[dict[str, Any]]:
    return [_part(part) for part in content]


def _part(part: Text | Image) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    if not part.data:
        return {"type": "text", "text": f"[{part.mime_type} removed from the history]"}
    return {"type": "image_url", "image_url": {"url": f"data:{part.mime_type};base64,{part.data}"}}
