"""Chunks of a streamed chat completion, read into pieces of an answer."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from critiqor.agentloop.models.model_client import Delta, Finished, TextDelta, ThinkingDelta, ToolCallDelta, UsageDelta
from critiqor.agentloop.models.provider_errors import failure_of_object, malformed

MOST_TOOL_CALLS = 256
_DONE = b"[DONE]"
_REASONING = ("reasoning_content", "reasoning", "reasoning_text")


class ChunkReader:
    """Takes the data of each event of a stream. A `Finished` comes last, when nothing more can follow."""

    def __init__(self) -> None:
        self._reason: str | None = None
        self._has_spoken = False
        self._positions: dict[str, int] = {}
        self._latest_call = 0
        self.done = False
        """Whether the server has said that this is all."""

    def read(self, data: bytes) -> list[Delta]:
        """The pieces in one event; raises `ModelFailureError` for an error object, and for what is no chunk."""
        if self.done or not data.strip():
            return []
        if data.strip() == _DONE:
            self.done = True
            return []
        chunk = _decoded(data)
        if not isinstance(chunk, dict):
            raise malformed("it holds something that is no chunk")
        if chunk.get("error"):
            raise failure_of_object(chunk["error"])
        deltas: list[Delta] = []
        for choice in _objects(chunk.get("choices")):
            # Only one answer was asked for; a server that gives more than one is heard for the first.
            if choice.get("index", 0) == 0:
                deltas += self._choice(choice)
        used = _usage(chunk.get("usage"))
        if used is not None:
            deltas.append(used)
        return deltas

    def finish(self) -> list[Delta]:
        """The end of the stream; raises `ModelFailureError` if the model was not done."""
        if self._reason is not None:
            return [Finished(self._reason)]
        if self.done and self._has_spoken:
            return [Finished("tool_calls" if self._positions or self._latest_call else "stop")]
        raise malformed(
            "the stream ended before the model was done" if self._has_spoken else "the stream ended without any words"
        )

    @property
    def is_finished(self) -> bool:
        """Whether the model has said that it is done, whatever the server still had to say."""
        return self._reason is not None

    def _choice(self, choice: dict[str, Any]) -> list[Delta]:
        delta = choice.get("delta")
        if delta is None and isinstance(choice.get("message"), dict):
            # A server that does not stream answers with the whole message, and has nothing to add.
            delta, self.done = choice["message"], True
        deltas: list[Delta] = []
        if isinstance(delta, dict):
            deltas += _words(delta)
            for call in _objects(delta.get("tool_calls")):
                deltas.append(self._tool_call(call))
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason:
            self._reason = reason
        self._has_spoken = self._has_spoken or bool(deltas)
        return deltas

    def _tool_call(self, call: dict[str, Any]) -> ToolCallDelta:
        function = call.get("function")
        function = function if isinstance(function, dict) else {}
        call_id, name = _text(call.get("id")), _text(function.get("name"))
        position = self._position(call.get("index"), call_id)
        arguments = function.get("arguments")
        if isinstance(arguments, dict):
            arguments = msgspec.json.encode(arguments).decode()
        return ToolCallDelta(index=position, id=call_id or None, name=name or None, arguments=_text(arguments))

    def _position(self, index: object, call_id: str) -> int:
        """Which call a piece belongs to; servers that leave the number out give an id with each first piece."""
        if isinstance(index, int) and not isinstance(index, bool) and index >= 0:
            position = index
        elif call_id:
            position = self._positions.get(call_id, len(self._positions))
        else:
            position = self._latest_call
        if position >= MOST_TOOL_CALLS:
            raise malformed(f"it asks for more than {MOST_TOOL_CALLS} tools at once")
        if call_id:
            self._positions.setdefault(call_id, position)
        self._latest_call = position
        return position


def _words(delta: dict[str, Any]) -> list[Delta]:
    deltas: list[Delta] = []
    thinking = next((text for key in _REASONING if (text := _text(delta.get(key)))), "")
    if thinking:
        deltas.append(ThinkingDelta(thinking))
    text = _text(delta.get("content")) or _text(delta.get("refusal"))
    if text:
        deltas.append(TextDelta(text))
    return deltas


def _usage(used: object) -> UsageDelta | None:
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


def _decoded(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        # Servers that count in UTF-16 may cut a character in two; half of one is no text, and is replaced.
        whole = json.dumps(json.loads(data), ensure_ascii=False).encode("utf-8", "replace")
        return msgspec.json.decode(whole)
    except (ValueError, RecursionError) as error:
        raise malformed("it holds a chunk that is not JSON") from error
