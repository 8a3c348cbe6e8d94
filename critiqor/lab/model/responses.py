"""Responses of the scripted model: a stream of the completions API or one document, complete or broken."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from critiqor.lab.model.model_script import Step

NOT_JSON = b'data: {"id": "scripted", "choices": [{"delta": {"content": "hal\n\n'

DEFAULT_STREAM_ERROR = "scripted error in the stream"
"""Message of an error in the middle of a response, unless the step has one."""


def error_body(step: Step) -> bytes:
    """Return the body of an HTTP error of the scripted model."""
    message = step.error or (DEFAULT_STREAM_ERROR if step.status == 200 else f"scripted HTTP {step.status}")
    return json.dumps({"error": {"message": message, "type": "scripted", "code": step.status}}).encode()


def stream_chunks(step: Step, model: str, number: int) -> Iterator[bytes]:
    """Yield the stream of one response of the scripted model, up to where it breaks; `number` is that of the request.

    A stream that breaks does so after half of its text, and before its tool calls.
    """

    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        return _event(model, [{"index": 0, "delta": delta, "finish_reason": finish}])

    yield chunk({"role": "assistant", "content": ""})
    if step.thinking:
        yield chunk({"reasoning_content": step.thinking})
    pieces = _cut(step.text, step.pieces)
    if step.ends not in ("done", "unfinished"):
        half = step.text[: len(step.text) // 2]
        yield from (chunk({"content": piece}) for piece in _cut(half, step.pieces))
        yield from _break_stream(step)
        return
    yield from (chunk({"content": piece}) for piece in pieces)
    for index, call in enumerate(_tool_calls(step, number)):
        yield chunk({"tool_calls": [{"index": index, **call}]})
    if step.ends == "unfinished":
        return
    yield chunk({}, _finish_reason(step))
    yield _event(model, [], usage=_usage(step))
    yield b"data: [DONE]\n\n"


def response_document(step: Step, model: str, number: int) -> bytes:
    """Return the response of the scripted model as one document; only half of it if the step is `malformed`."""
    message: dict[str, Any] = {"role": "assistant", "content": step.text}
    if step.thinking:
        message["reasoning_content"] = step.thinking
    if step.tools:
        message["tool_calls"] = list(_tool_calls(step, number))
    finish = None if step.ends == "unfinished" else _finish_reason(step)
    choice = {"index": 0, "message": message, "finish_reason": finish}
    completion = {"id": "scripted", "object": "chat.completion", "model": model, "choices": [choice]}
    document = json.dumps({**completion, "usage": _usage(step)}).encode()
    return document[: len(document) // 2] if step.ends == "malformed" else document


def _tool_calls(step: Step, number: int) -> Iterator[dict[str, Any]]:
    for index, tool in enumerate(step.tools, 1):
        arguments = tool.arguments if isinstance(tool.arguments, str) else json.dumps(tool.arguments)
        function = {"name": tool.name, "arguments": arguments}
        yield {"id": tool.id or f"call_{number}_{index}", "type": "function", "function": function}


def _finish_reason(step: Step) -> str:
    return step.finish or ("tool_calls" if step.tools else "stop")


def _break_stream(step: Step) -> Iterator[bytes]:
    if step.ends == "malformed":
        yield NOT_JSON
        yield b"data: [DONE]\n\n"
    elif step.ends == "error":
        message = step.error or DEFAULT_STREAM_ERROR
        yield _line({"error": {"message": message, "type": "server_error", "code": "server_error"}})


def _cut(text: str, pieces: int) -> list[str]:
    size = max(1, -(-len(text) // max(1, pieces)))
    return [text[at : at + size] for at in range(0, len(text), size)]


def _event(model: str, choices: list[dict[str, Any]], **more: Any) -> bytes:
    return _line({"id": "scripted", "object": "chat.completion.chunk", "model": model, "choices": choices, **more})


def _line(document: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(document).encode() + b"\n\n"


def _usage(step: Step) -> dict[str, int]:
    return {
        "prompt_tokens": step.input_tokens,
        "completion_tokens": step.output_tokens,
        "total_tokens": step.input_tokens + step.output_tokens,
    }
