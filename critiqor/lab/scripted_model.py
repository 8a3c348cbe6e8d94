"""A scripted model on loopback, so that a real agent runs the same way every time.

It answers the one request that agents make of an OpenAI-compatible endpoint, `POST …/chat/completions`, with a
server-sent-event stream, one scripted step a request. It binds to 127.0.0.1 only and needs no account and no network.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

import msgspec


class ToolUse(msgspec.Struct, frozen=True):
    """One tool call that the scripted model asks for."""

    id: str
    name: str
    arguments: dict[str, Any]


class Step(msgspec.Struct, frozen=True):
    """What the model does when it is asked once."""

    text: str = ""
    """The words that are streamed back."""
    tools: tuple[ToolUse, ...] = ()
    """Tool calls that follow the words; with any, the finish reason is `tool_calls`."""
    status: int = 200
    """An HTTP status other than 200 answers with an error instead of a stream."""
    delay_s: float = 0.0
    """Seconds to wait before the first byte."""
    input_tokens: int = 1000
    output_tokens: int = 20


class ScriptedModel:
    """A model server that plays `steps` in order and repeats the last one for every request after that.

    Use it as a context manager; `base_url` is what an OpenClaw provider takes as its `baseUrl`.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        if not steps:
            raise ValueError("a scripted model needs at least one step")
        self._steps = list(steps)
        self._lock = threading.Lock()
        self.requests: list[dict[str, Any]] = []
        """Every request body received, in order."""
        self._server = _Server(("127.0.0.1", 0), self._handler_class())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def rewind(self) -> None:
        """Play the script from its first step again."""
        with self._lock:
            self.requests.clear()

    def __enter__(self) -> ScriptedModel:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _take(self, body: dict[str, Any]) -> Step:
        with self._lock:
            step = self._steps[min(len(self.requests), len(self._steps) - 1)]
            self.requests.append(body)
            return step

    def _handler_class(self) -> type[BaseHTTPRequestHandler]:
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers.get("content-length", "0"))) or b"{}")
                step = model._take(body)
                if step.delay_s:
                    time.sleep(step.delay_s)
                if step.status != 200:
                    self._answer(step.status, "application/json", _error_body(step.status))
                else:
                    self._answer(200, "text/event-stream", b"".join(_stream(step, str(body.get("model", "scripted")))))

            def do_GET(self) -> None:
                self._answer(200, "application/json", b'{"object":"list","data":[]}')

            def _answer(self, status: int, content_type: str, body: bytes) -> None:
                self.send_response(status)
                self.send_header("content-type", content_type)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Stay silent: the terminal belongs to the agent."""

        return Handler


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """An agent that is killed or gives up hangs up: no reason to write to the terminal."""


def _error_body(status: int) -> bytes:
    return json.dumps({"error": {"message": f"scripted HTTP {status}", "type": "scripted", "code": status}}).encode()


def _stream(step: Step, model_name: str) -> Iterator[bytes]:
    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return _sse({"id": "scripted", "object": "chat.completion.chunk", "model": model_name, "choices": [choice]})

    yield chunk({"role": "assistant", "content": step.text})
    for index, tool in enumerate(step.tools):
        function = {"name": tool.name, "arguments": json.dumps(tool.arguments)}
        yield chunk({"tool_calls": [{"index": index, "id": tool.id, "type": "function", "function": function}]})
    yield chunk({}, finish="tool_calls" if step.tools else "stop")
    usage = {
        "prompt_tokens": step.input_tokens,
        "completion_tokens": step.output_tokens,
        "total_tokens": step.input_tokens + step.output_tokens,
    }
    yield _sse(
        {"id": "scripted", "object": "chat.completion.chunk", "model": model_name, "choices": [], "usage": usage}
    )
    yield b"data: [DONE]\n\n"


def _sse(document: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(document).encode() + b"\n\n"
