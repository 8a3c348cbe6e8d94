"""The bytes of a scripted answer: server-sent events of the completions API, or one document; whole, or broken."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from critiqor.lab.model.model_script import Step, tokens_of

NOT_JSON = b'data: {"id": "scripted", "choices": [{"delta": {"content": "hal\n\n'

BROKEN = "scripted error in the stream"
"""What an error in the middle of an answer says where nothing is told."""


def error_body(step: Step) -> bytes:
    """What an HTTP error says."""
    message = step.error or (BROKEN if step.status == 200 else f"scripted HTTP {step.status}")
    return json.dumps({"error": {"message": message, "type": "scripted", "code": step.status}}).encode()


def answer_pieces(step: Step, model: str, answer: int) -> Iterator[bytes]:
    """The stream of one answer, piece by piece, as far as it goes; `answer` numbers it among all of them.

    A stream that breaks does so after half of its words, and before its tool calls.
    """

    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        return _event(model, [{"index": 0, "delta": delta, "finish_reason": finish}])

    yield chunk({"role": "assistant", "content": ""})
    if step.thinking:
        yield chunk({"reasoning_content": step.thinking})
    words = _cut(step.text, step.pieces)
    if step.ends not in ("done", "unfinished"):
        half = step.text[: len(step.text) // 2]
        yield from (chunk({"content": piece}) for piece in _cut(half, step.pieces))
        yield from _broken(step)
        return
    yield from (chunk({"content": piece}) for piece in words)
    for index, call in enumerate(_calls(step, answer)):
        yield chunk({"tool_calls": [{"index": index, **call}]})
    if step.ends == "unfinished":
        return
    yield chunk({}, _finish(step))
    yield _event(model, [], usage=tokens_of(step))
    yield b"data: [DONE]\n\n"


def answer_document(step: Step, model: str, answer: int) -> bytes:
    """The same answer in one document, whole, or with half of its words and no end where it is to be malformed."""
    message: dict[str, Any] = {"role": "assistant", "content": step.text}
    if step.thinking:
        message["reasoning_content"] = step.thinking
    if step.tools:
        message["tool_calls"] = list(_calls(step, answer))
    finish = None if step.ends == "unfinished" else _finish(step)
    choice = {"index": 0, "message": message, "finish_reason": finish}
    told = {"id": "scripted", "object": "chat.completion", "model": model, "choices": [choice]}
    document = json.dumps({**told, "usage": tokens_of(step)}).encode()
    return document[: len(document) // 2] if step.ends == "malformed" else document


def _calls(step: Step, answer: int) -> Iterator[dict[str, Any]]:
    for number, tool in enumerate(step.tools, 1):
        arguments = tool.arguments if isinstance(tool.arguments, str) else json.dumps(tool.arguments)
        function = {"name": tool.name, "arguments": arguments}
        yield {"id": tool.id or f"call_{answer}_{number}", "type": "function", "function": function}


def _finish(step: Step) -> str:
    return step.finish or ("tool_calls" if step.tools else "stop")


def _broken(step: Step) -> Iterator[bytes]:
    if step.ends == "malformed":
        yield NOT_JSON
        yield b"data: [DONE]\n\n"
    elif step.ends == "error":
        message = step.error or BROKEN
        yield _line({"error": {"message": message, "type": "server_error", "code": "server_error"}})


def _cut(text: str, pieces: int) -> list[str]:
    size = max(1, -(-len(text) // max(1, pieces)))
    return [text[at : at + size] for at in range(0, len(text), size)]


def _event(model: str, choices: list[dict[str, Any]], **more: Any) -> bytes:
    return _line({"id": "scripted", "object": "chat.completion.chunk", "model": model, "choices": choices, **more})


def _line(document: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(document).encode() + b"\n\n"
