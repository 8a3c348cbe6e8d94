"""A scripted model on loopback, so that a real agent runs the same way every time.

It answers the one request that agents make of an OpenAI-compatible endpoint, `POST …/chat/completions`, with a
server-sent-event stream or, to those who ask for none, with one document: one scripted step a request. It binds to
127.0.0.1 only and needs no account and no network.
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
from critiqor.lab.model.answer_stream import answer_document, answer_pieces, error_body
from critiqor.lab.model.conversations import Conversation, Conversations, is_kept
from critiqor.lab.model.model_script import Script, Step, ToolUse

MODEL = "scripted"
MODELS = json.dumps({"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "critiqor"}]}).encode()
"""The answer to whoever asks which models there are; whatever name a request has is as good."""
_POLL_SECONDS = 0.02


class Asked(NamedTuple):
    """One request, and the step that answers it."""

    number: int
    """Which request it is, from 1, of all that were made."""
    step: Step
    conversation: Conversation | None
    """What the step belongs to; None where it is of no script."""


Watcher = Callable[[int], None]
"""Told the number of a request."""


class ScriptedModel:
    """A model server that plays scripts step by step, and repeats the last step for every request after that.

    With `steps` there is one script for whatever comes. With `scripts` the last message of a user in the request that
    any of them knows chooses the script, and each session plays it from its first step. Use it as a context manager;
    `base_url` is what an OpenClaw provider takes as its `baseUrl`.
    """

    def __init__(
        self,
        steps: Sequence[Step] = (),
        scripts: Sequence[Script] = (),
        *,
        summary: str | None = None,
        on_request: Watcher | None = None,
        on_answer: Watcher | None = None,
        port: int = 0,
    ) -> None:
        """`summary` answers requests that offer no tools: those of a compaction.

        `on_request` is called before a request is answered, `on_answer` after that. A `port` of 0 is any free one.
        """
        if not steps and not scripts:
            raise ValueError("a scripted model needs at least one step")
        self._conversations = Conversations(steps, scripts)
        self._summary = summary
        self._watchers = (on_request, on_answer)
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self.requests: list[dict[str, Any]] = []
        """Every request body received, in order."""
        try:
            self._server = _Server(("127.0.0.1", port), self._handler_class())
        except OSError as error:
            message = f"port {port} cannot be had: {error.strerror}"
            raise CritiqorError(message, fix="leave out --port   to take a free one") from error
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
        """The scripts that were not played to their end, each with the number of steps that are left."""
        with self._lock:
            return self._conversations.unplayed()

    def __enter__(self) -> ScriptedModel:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _take(self, body: dict[str, Any]) -> Asked:
        with self._lock:
            self.requests.append(body)
            number = len(self.requests)
            if self._summary is not None and not body.get("tools"):
                self._conversations.shortened()
                return Asked(number, Step(text=self._summary), None)
            place = self._conversations.take(body, number)
            return Asked(number, place.step, place.conversation)

    def _deliver(self, asked: Asked) -> None:
        """The agent is about to have the whole answer: from now on its history has it."""
        if asked.conversation is not None and is_kept(asked.step):
            with self._lock:
                asked.conversation.delivered += 1

    def _tell(self, when: int, number: int) -> None:
        watcher = self._watchers[when]
        if watcher is not None:
            watcher(number)

    def _handler_class(self) -> type[BaseHTTPRequestHandler]:
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers.get("content-length", "0"))) or b"{}")
                asked = model._take(body)
                step = asked.step
                model._tell(0, asked.number)
                if step.delay_s and model._ended.wait(step.delay_s):
                    return
                name = str(body.get("model", MODEL))
                if step.status != 200:
                    self._refuse(step)
                elif body.get("stream"):
                    self._stream(asked, name)
                else:
                    self._tell_whole(asked, name)
                model._tell(1, asked.number)

            def do_GET(self) -> None:
                if self.path.rstrip("/").endswith("/models"):
                    self._answer(200, MODELS)
                else:
                    self._answer(404, b'{"error":{"message":"there is only /v1/models and /v1/chat/completions"}}')

            def _refuse(self, step: Step) -> None:
                wait = {} if step.retry_after_s is None else {"retry-after": f"{step.retry_after_s:g}"}
                self._answer(step.status, error_body(step), wait)

            def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                for name, value in (headers or {}).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def _stream(self, asked: Asked, model_name: str) -> None:
                step = asked.step
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("transfer-encoding", "chunked")
                self.end_headers()
                pieces = list(answer_pieces(step, model_name, asked.number))
                pieces = pieces if step.pause_s else [b"".join(pieces)]
                for count, piece in enumerate(pieces, 1):
                    if count > 1 and model._ended.wait(step.pause_s):
                        return
                    if count == len(pieces) and not self._is_left():
                        model._deliver(asked)
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                if step.ends == "stall":
                    self._stall()
                elif step.ends == "disconnect":
                    self._hang_up()
                else:
                    self.wfile.write(b"0\r\n\r\n")

            def _tell_whole(self, asked: Asked, model_name: str) -> None:
                """The same in one document, for those who do not ask for a stream."""
                step = asked.step
                if step.ends == "stall":
                    self._stall()
                elif step.ends == "disconnect":
                    self._hang_up()
                elif step.ends == "error":
                    self._answer(500, error_body(step))
                else:
                    if not self._is_left():
                        model._deliver(asked)
                    self._answer(200, answer_document(step, model_name, asked.number))

            def _is_left(self) -> bool:
                """Whether the other side has given up waiting."""
                try:
                    return not self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
                except BlockingIOError:
                    return False
                except OSError:
                    return True

            def _stall(self) -> None:
                """Say nothing more until the other side gives up, or the model is at its end."""
                self.close_connection = True
                self.connection.settimeout(_POLL_SECONDS)
                while not model._ended.is_set():
                    with contextlib.suppress(TimeoutError):
                        if not self.connection.recv(1):
                            return

            def _hang_up(self) -> None:
                """Reset the connection, as a network does that goes away."""
                self.close_connection = True
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.connection.close()

            def log_message(self, format: str, *args: object) -> None:
                """Stay silent: the terminal belongs to the agent."""

        return Handler


class _Server(ThreadingHTTPServer):
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """An agent that is killed or gives up hangs up: no reason to write to the terminal."""


__all__ = ["Asked", "Script", "ScriptedModel", "Step", "ToolUse"]
