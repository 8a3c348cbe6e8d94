"""Agent server on a local socket: one JSON request per line, answered by id, for one user on one machine.

    {"id": 1, "method": "agent", "params": {"message": "…"}}        → {"id": 1, "ok": true, "result": {"runId": …}}
    {"id": 2, "method": "agent.wait", "params": {"runId": "…"}}     → {"id": 2, "ok": true, "result": {"status": …}}
    {"id": 3, "method": "agent.schedule", "params": {"message": "…", "everySeconds": 3600}}     → {"id": 3, …}

A run belongs to the server: it continues when its client disconnects. With `attached`, a run belongs to its client and
ends with the connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from critiqor.agentloop.entry.runtime import DEFAULT_WAIT_SECONDS, AgentRuntime, open_runtime
from critiqor.agentloop.entry.scheduler import Schedule, Scheduler
from critiqor.agentloop.event_streams import AgentEvent
from critiqor.agentloop.recording.diagnostics import Diagnostics
from critiqor.agentloop.replies.chat_messages import ChatFeed, ChatMessage
from critiqor.agentloop.runs import AgentParams
from critiqor.agentloop.services import LOOP_FOLDER
from critiqor.errors import CritiqorError, UsageError
from critiqor.storage.paths import FOLDER_MODE

MAX_LINE_BYTES = 8 << 20
MAX_PENDING_REQUESTS = 256
"""Unanswered requests per connection."""
MAX_BUFFERED_BYTES = 16 << 20
"""Unread output per connection; a client that exceeds it is disconnected."""
MAX_SOCKET_PATH_BYTES = 100
"""Slightly below the limit of the operating system."""
SESSION_END_SECONDS = 2.0


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request of a client."""

    id: int | str | None = None
    method: str
    params: dict[str, Any] = {}


class _WaitParams(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    run_id: str
    timeout_ms: float = DEFAULT_WAIT_SECONDS * 1000


class _CancelParams(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    run_id: str
    reason: str = "cancelled by a client"


class _ScheduleId(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str


def socket_path(state_folder: Path) -> Path:
    """Return the path of the server's socket for a state folder."""
    return state_folder / LOOP_FOLDER / "agent.sock"


class AgentServer:
    """Serves a runtime on a socket."""

    def __init__(self, runtime: AgentRuntime, path: Path) -> None:
        self._runtime = runtime
        self._scheduler = Scheduler(runtime)
        self.path = path
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._is_closing = False

    async def start(self) -> None:
        """Start listening. Raises `UsageError` if another server already listens on the path."""
        if len(str(self.path).encode()) > MAX_SOCKET_PATH_BYTES:
            raise UsageError(
                f"the path {self.path} is too long for a socket", fix="choose a shorter one: --socket PATH"
            )
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
        await self._remove_stale_socket()
        self._server = await asyncio.start_unix_server(self._serve, self.path, limit=MAX_LINE_BYTES)
        self.path.chmod(0o600)
        self._scheduler.start()
        await self._runtime.hooks.run("gateway_start", {"socket": str(self.path)}, {})

    async def close(self, reason: str = "closed") -> None:
        """Stop listening, close all connections and run the shutdown hooks."""
        if self._server is None:
            return
        self._is_closing = True
        await self._scheduler.close()
        self._server.close()
        for connection in list(self._connections):
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        self.path.unlink(missing_ok=True)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SESSION_END_SECONDS):
                await self._runtime.end_sessions("shutdown")
        await self._runtime.hooks.run("gateway_stop", {"reason": reason}, {})

    async def _remove_stale_socket(self) -> None:
        """Remove the socket of a server that has died."""
        if not self.path.exists():
            return
        try:
            _, writer = await asyncio.open_unix_connection(self.path)
        except (ConnectionRefusedError, FileNotFoundError):
            self.path.unlink(missing_ok=True)
            return
        writer.close()
        raise UsageError(f"another agent server listens on {self.path}", fix="use that one, or stop it first")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.current_task()
        assert connection is not None
        if self._is_closing:
            writer.close()  # accepted just before the server stopped listening
            return
        self._connections.add(connection)
        try:
            await _Connection(self._runtime, self._scheduler, reader, writer).serve()
        except asyncio.CancelledError:
            pass  # the server is closing
        finally:
            self._connections.discard(connection)
            writer.close()


class _Connection:
    def __init__(
        self,
        runtime: AgentRuntime,
        scheduler: Scheduler,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._runtime = runtime
        self._scheduler = scheduler
        self._reader = reader
        self._writer = writer
        self._pending: set[asyncio.Task[None]] = set()
        self._attached: list[str] = []
        self._subscriptions: list[Callable[[], None]] = []

    async def serve(self) -> None:
        try:
            while line := await self._reader.readline():
                await self._receive(line)
        except (ConnectionError, ValueError):
            self._send({"ok": False, "error": {"message": "the request line is too long, or the connection was lost"}})
        finally:
            for unsubscribe in self._subscriptions:
                unsubscribe()
            for task in self._pending:
                task.cancel()
            for run_id in self._attached:
                self._runtime.cancel(run_id, "its client disconnected", "disconnected")

    async def _receive(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            request = msgspec.json.decode(line, type=Request)
        except (msgspec.DecodeError, RecursionError, ValueError) as error:
            self._send({"id": None, "ok": False, "error": {"message": f"not a valid request: {error}"}})
            return
        while len(self._pending) >= MAX_PENDING_REQUESTS:
            await asyncio.wait(self._pending, return_when=asyncio.FIRST_COMPLETED)
        task = asyncio.create_task(self._answer(request))
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)

    async def _answer(self, request: Request) -> None:
        try:
            result = await self._call(request.method, request.params)
            self._send({"id": request.id, "ok": True, "result": msgspec.to_builtins(result)})
        except msgspec.ValidationError as error:
            self._fail(request, "UsageError", f"invalid parameters for {request.method}: {error}", None)
        except CritiqorError as error:
            self._fail(request, type(error).__name__, error.message, error.fix)
        except Exception as error:
            self._fail(request, type(error).__name__, f"internal error: {error}", None)

    async def _call(self, method: str, params: dict[str, Any]) -> Any:
        runtime = self._runtime
        if method == "agent":
            attached = params.pop("attached", False)
            accepted = await runtime.agent(msgspec.convert(params, type=AgentParams))
            if attached:
                self._attached.append(accepted.run_id)
            return accepted
        if method == "agent.wait":
            wait = msgspec.convert(params, type=_WaitParams)
            return await runtime.wait(wait.run_id, wait.timeout_ms / 1000)
        if method == "agent.outcome":
            return await runtime.outcome(msgspec.convert(params, type=_CancelParams).run_id)
        if method == "agent.cancel":
            cancel = msgspec.convert(params, type=_CancelParams)
            return {"cancelled": runtime.cancel(cancel.run_id, cancel.reason)}
        if method == "agent.schedule":
            given = {name: params.pop(name) for name in ("at", "everySeconds") if name in params}
            schedule = msgspec.convert(given, type=Schedule)
            return self._scheduler.add(msgspec.convert(params, type=AgentParams), schedule)
        if method == "agent.scheduled":
            return self._scheduler.runs()
        if method == "agent.unschedule":
            return {"removed": self._scheduler.remove(msgspec.convert(params, type=_ScheduleId).id)}
        if method == "events":
            if not self._subscriptions:
                self._subscriptions.append(runtime.streams.listen(self._send_event))
                self._subscriptions.append(ChatFeed(runtime.streams, self._send_chat_message).stop)
            return {"listening": True}
        raise UsageError(
            f"unknown method {method!r}",
            fix="use agent, agent.wait, agent.outcome, agent.cancel, agent.schedule, agent.scheduled, agent.unschedule "
            "or events",
        )

    def _send_event(self, event: AgentEvent) -> None:
        self._send({"event": "agent", "payload": msgspec.to_builtins(event)})

    def _send_chat_message(self, message: ChatMessage) -> None:
        self._send({"event": "chat", "payload": msgspec.to_builtins(message)})

    def _fail(self, request: Request, kind: str, message: str, fix: str | None) -> None:
        self._send({"id": request.id, "ok": False, "error": {"type": kind, "message": message, "fix": fix}})

    def _send(self, document: dict[str, Any]) -> None:
        transport = self._writer.transport
        if transport.is_closing():
            return
        if transport.get_write_buffer_size() > MAX_BUFFERED_BYTES:
            transport.abort()  # the client does not read its events
            return
        self._writer.write(msgspec.json.encode(document, enc_hook=str) + b"\n")


async def serve(
    environment: Mapping[str, str], path: Path | None, config: Path | None = None, arguments: Sequence[str] = ()
) -> None:
    """Run a server until SIGINT or SIGTERM."""
    began = time.perf_counter()
    diagnostics = Diagnostics.from_environment(environment)
    async with contextlib.AsyncExitStack() as stack:
        with diagnostics.span("gateway.startup"):
            opened = open_runtime(environment, config=config, arguments=arguments, diagnostics=diagnostics)
            runtime = await stack.enter_async_context(opened)
            server = AgentServer(runtime, path or socket_path(runtime.services.state_folder))
            stopped = asyncio.Event()
            loop = asyncio.get_running_loop()
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, stopped.set)
            await server.start()
        diagnostics.gateway_ready((time.perf_counter() - began) * 1000)
        try:
            await stopped.wait()
        finally:
            await server.close("ended by a signal")
