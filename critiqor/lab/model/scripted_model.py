"""A scripted model server on loopback, so that a real agent runs the same way every time.

It answers `POST …/chat/completions` of an OpenAI-compatible endpoint with a stream of server-sent events, or with one
document if no stream is requested: one scripted step per request. It binds to 127.0.0.1 only and needs neither an
account nor a network.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple

from critiqor.errors import CritiqorError
from critiqor.lab.model.conversations import Conversation, Conversations, is_kept
from critiqor.lab.model.model_script import Script, Step, ToolUse
from critiqor.lab.model.responses import error_body, response_document, stream_chunks

MODEL = "scripted"
MODELS = json.dumps({"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "critiqor"}]}).encode()
"""The response to `GET …/models`; any model name is accepted in a request."""
_POLL_SECONDS = 0.02


class ScriptedRequest(NamedTuple):
    """One request and the step that answers it."""

    number: int
    """Its number among all requests, from 1."""
    step: Step
    conversation: Conversation | None
    """The conversation that the step belongs to; None for a summary."""


RequestCallback = Callable[[int], None]
"""Called with the number of a request."""


class ScriptedModel:
    """A model server that plays scripts step by step, and repeats the last step for further requests.

    With `steps` one script answers everything. With `scripts` the last message of a user that a script knows selects
    the script, and each session plays it from its first step. Use it as a context manager; `base_url` is the `baseUrl`
    of an OpenClaw provider.
    """

    def __init__(
        self,
        steps: Sequence[Step] = (),
        scripts: Sequence[Script] = (),
        *,
        summary: str | None = None,
        on_request: RequestCallback | None = None,
        on_response: RequestCallback | None = None,
        port: int = 0,
    ) -> None:
        """`summary` answers requests without tools: those of a compaction.

        `on_request` is called before a request is answered, `on_response` afterwards. Port 0 selects any free port.
        """
        if not steps and not scripts:
            raise ValueError("a scripted model needs at least one step")
        self._conversations = Conversations(steps, scripts)
        self._summary = summary
        self._on_request = on_request
        self._on_response = on_response
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self.requests: list[dict[str, Any]] = []
        """Every request body received, in order."""
        try:
            self._server = _Server(("127.0.0.1", port), self._handler_class())
        except OSError as error:
            message = f"port {port} is not available: {error.strerror}"
            raise CritiqorError(message, fix="omit --port   to use a free one") from error
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(_POLL_SECONDS,), daemon=True)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def rewind(self) -> None:
        """Play the scripts from their first steps again."""
        with self._lock:
            self.requests.clear()
            self._conversations.clear()

    def unplayed(self) -> dict[str | None, int]:
        """Return the scripts that were not played to their end, each with the number of steps left."""
        with self._lock:
            return self._conversations.unplayed()

    def __enter__(self) -> ScriptedModel:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _take(self, body: dict[str, Any]) -> ScriptedRequest:
        with self._lock:
            self.requests.append(body)
            number = len(self.requests)
            if self._summary is not None and not body.get("tools"):
                self._conversations.note_compaction()
                return ScriptedRequest(number, Step(text=self._summary), None)
            position = self._conversations.take(body, number)
            return ScriptedRequest(number, position.step.for_request(body), position.conversation)

    def _mark_delivered(self, request: ScriptedRequest) -> None:
        """Note that the agent is about to have the whole response in its history."""
        if request.conversation is not None and is_kept(request.step):
            with self._lock:
                request.conversation.delivered += 1

    def _handler_class(self) -> type[BaseHTTPRequestHandler]:
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers.get("content-length", "0"))) or b"{}")
                request = model._take(body)
                step = request.step
                if model._on_request is not None:
                    model._on_request(request.number)
                if step.delay_s and model._stopped.wait(step.delay_s):
                    return
                name = str(body.get("model", MODEL))
                if step.status != 200:
                    self._send_error(step)
                elif body.get("stream"):
                    self._send_stream(request, name)
                else:
                    self._send_document(request, name)
                if model._on_response is not None:
                    model._on_response(request.number)

            def do_GET(self) -> None:
                if self.path.rstrip("/").endswith("/models"):
                    self._send(200, MODELS)
                else:
                    self._send(404, b'{"error":{"message":"there is only /v1/models and /v1/chat/completions"}}')

            def _send_error(self, step: Step) -> None:
                headers = {} if step.retry_after_s is None else {"retry-after": f"{step.retry_after_s:g}"}
                self._send(step.status, error_body(step), headers)

            def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                for name, value in (headers or {}).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def _send_stream(self, request: ScriptedRequest, model_name: str) -> None:
                step = request.step
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("transfer-encoding", "chunked")
                self.end_headers()
                chunks = list(stream_chunks(step, model_name, request.number))
                chunks = chunks if step.pause_s else [b"".join(chunks)]
                for count, chunk in enumerate(chunks, 1):
                    if count > 1 and model._stopped.wait(step.pause_s):
                        return
                    if count == len(chunks) and not self._client_is_gone():
                        model._mark_delivered(request)
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
                if step.ends == "stall":
                    self._stall()
                elif step.ends == "disconnect":
                    self._disconnect()
                else:
                    self.wfile.write(b"0\r\n\r\n")

            def _send_document(self, request: ScriptedRequest, model_name: str) -> None:
                step = request.step
                if step.ends == "stall":
                    self._stall()
                elif step.ends == "disconnect":
                    self._disconnect()
                elif step.ends == "error":
                    self._send(500, error_body(step))
                else:
                    if not self._client_is_gone():
                        model._mark_delivered(request)
                    self._send(200, response_document(step, model_name, request.number))

            def _client_is_gone(self) -> bool:
                """Return whether the client has closed the connection."""
                try:
                    return not self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
                except BlockingIOError:
                    return False
                except OSError:
                    return True

            def _stall(self) -> None:
                """Send nothing more until the client gives up or the model is stopped."""
                self.close_connection = True
                self.connection.settimeout(_POLL_SECONDS)
                while not model._stopped.is_set():
                    with contextlib.suppress(TimeoutError):
                        if not self.connection.recv(1):
                            return

            def _disconnect(self) -> None:
                """Reset the connection, as a broken network does."""
                self.close_connection = True
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.connection.close()

            def log_message(self, format: str, *args: object) -> None:
                """Print nothing: the terminal belongs to the agent."""

        return Handler


class _Server(ThreadingHTTPServer):
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing: an agent that is killed or gives up closes the connection."""


__all__ = ["Script", "ScriptedModel", "ScriptedRequest", "Step", "ToolUse"]
