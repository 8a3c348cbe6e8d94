"""Parser for the chunks of a streamed chat completion."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from critiqor.agentloop.models.model_client import Delta, Finished, TextDelta, ThinkingDelta, ToolCallDelta, UsageDelta
from critiqor.agentloop.models.provider_errors import failure_of_object, malformed

MAX_TOOL_CALLS = 256
_DONE = b"[DONE]"
_REASONING = ("reasoning_content", "reasoning", "reasoning_text")


class ChunkReader:
    """Turns the data of each server-sent event into deltas; the last delta is `Finished`."""

    def __init__(self) -> None:
        self._reason: str | None = None
        self._has_content = False
        self._positions: dict[str, int] = {}
        self._latest_call = 0
        self.done = False
        """Whether the server has marked the end of the stream."""

    def read(self, data: bytes) -> list[Delta]:
        """Return the deltas in one event; raises `ModelFailureError` for an error object or an invalid chunk."""
        if self.done or not data.strip():
            return []
        if data.strip() == _DONE:
            self.done = True
            return []
        chunk = _decode_chunk(data)
        if not isinstance(chunk, dict):
            raise malformed("it contains an invalid chunk")
        if chunk.get("error"):
            raise failure_of_object(chunk["error"])
        deltas: list[Delta] = []
        for choice in _objects(chunk.get("choices")):
            # Only one answer was requested; of several answers the first is used.
            if choice.get("index", 0) == 0:
                deltas += self._read_choice(choice)
        used = _read_usage(chunk.get("usage"))
        if used is not None:
            deltas.append(used)
        return deltas

    def finish(self) -> list[Delta]:
        """Return the delta that ends the stream; raises `ModelFailureError` if the answer is incomplete."""
        if self._reason is not None:
            return [Finished(self._reason)]
        if self.done and self._has_content:
            return [Finished("tool_calls" if self._positions or self._latest_call else "stop")]
        raise malformed(
            "the stream ended before the answer was complete"
            if self._has_content
            else "the stream ended without content"
        )

    @property
    def is_finished(self) -> bool:
        """Whether the model has given a finish reason, even if the server has not closed the stream."""
        return self._reason is not None

    def _read_choice(self, choice: dict[str, Any]) -> list[Delta]:
        delta = choice.get("delta")
        if delta is None and isinstance(choice.get("message"), dict):
            # A server that does not stream sends the whole message at once.
            delta, self.done = choice["message"], True
        deltas: list[Delta] = []
        if isinstance(delta, dict):
            deltas += _text_deltas(delta)
            for call in _objects(delta.get("tool_calls")):
                deltas.append(self._read_tool_call(call))
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason:
            self._reason = reason
        self._has_content = self._has_content or bool(deltas)
        return deltas

    def _read_tool_call(self, call: dict[str, Any]) -> ToolCallDelta:
        function = call.get("function")
        function = function if isinstance(function, dict) else {}
        call_id, name = _text(call.get("id")), _text(function.get("name"))
        position = self._position(call.get("index"), call_id)
        arguments = function.get("arguments")
        if isinstance(arguments, dict):
            arguments = msgspec.json.encode(arguments).decode()
        return ToolCallDelta(index=position, id=call_id or None, name=name or None, arguments=_text(arguments))

    def _position(self, index: object, call_id: str) -> int:
        """Return the index of the call that a delta belongs to.

        Servers that leave the index out send the id with the first delta of each call.
        """
        if isinstance(index, int) and not isinstance(index, bool) and index >= 0:
            position = index
        elif call_id:
            position = self._positions.get(call_id, len(self._positions))
        else:
            position = self._latest_call
        if position >= MAX_TOOL_CALLS:
            raise malformed(f"it has more than {MAX_TOOL_CALLS} tool calls")
        if call_id:
            self._positions.setdefault(call_id, position)
        self._latest_call = position
        return position


def _text_deltas(delta: dict[str, Any]) -> list[Delta]:
    deltas: list[Delta] = []
    thinking = next((text for key in _REASONING if (text := _text(delta.get(key)))), "")
    if thinking:
        deltas.append(ThinkingDelta(thinking))
    text = _text(delta.get("content")) or _text(delta.get("refusal"))
    if text:
        deltas.append(TextDelta(text))
    return deltas


def _read_usage(used: object) -> UsageDelta | None:
    if not isinstance(used, dict):
        return None
    prompt, output = _count(used.get("prompt_tokens")), _count(used.get("completion_tokens"))
    details = used.get("prompt_tokens_details")
    details = details if isinstance(details, dict) else {}
    cached = min(_count(details.get("cached_tokens")), prompt)
    written = min(_count(details.get("cache_write_tokens")), prompt - cached)
    return UsageDelta(input=prompt - cached - written, output=output, cache_read=cached, cache_write=written)


def _count(value: object) -> int:
    return int(value) if isinstance(value, int | float) and 0 <= value < 1e15 else 0


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _objects(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _decode_chunk(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        # Servers that count in UTF-16 may cut a surrogate pair in two; a lone surrogate is replaced.
        whole = json.dumps(json.loads(data), ensure_ascii=False).encode("utf-8", "replace")
        return msgspec.json.decode(whole)
    except (ValueError, RecursionError) as error:
        raise malformed("it contains a chunk that is not JSON") from error
