"""A local socket for the loop: requests as JSON, one a line, answered by id; for one user of one machine.

    {"id": 1, "method": "agent", "params": {"message": "…"}}        → {"id": 1, "ok": true, "result": {"runId": …}}
    {"id": 2, "method": "agent.wait", "params": {"runId": "…"}}     → {"id": 2, "ok": true, "result": {"status": …}}

A run belongs to the server: a client that goes away leaves it running, and only its waits end. With `attached` a run
belongs to its client, and ends with the connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from critiqor.agentloop.entry.host import opened_runtime
from critiqor.agentloop.entry.runtime import DEFAULT_WAIT_SECONDS, AgentRuntime
from critiqor.agentloop.event_streams import AgentEvent
from critiqor.agentloop.replies.chat_messages import ChatMessage, Chats
from critiqor.agentloop.runs import AgentParams
from critiqor.agentloop.services import OWN_FOLDER
from critiqor.errors import CritiqorError, UsageError
from critiqor.storage.paths import FOLDER_MODE

LONGEST_LINE = 8 << 20
MOST_WAITING = 256
"""Requests of one connection that are not answered yet."""
MOST_BUFFERED = 16 << 20
"""Bytes that a client which listens may be behind before it is hung up on."""
LONGEST_PATH = 100
"""Bytes of a socket's path; the system allows a few more."""
SESSION_END_SECONDS = 2.0


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a client."""

    id: int | str | None = None
    method: str
    params: dict[str, Any] = {}


class _WaitParams(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    run_id: str
    timeout_ms: float = DEFAULT_WAIT_SECONDS * 1000


class _CancelParams(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    run_id: str
    reason: str = "cancelled by a client"


def socket_path(state_folder: Path) -> Path:
    """Where the socket of a state folder is."""
    return state_folder / OWN_FOLDER / "agent.sock"


class AgentServer:
    """Serves a runtime on a socket."""

    def __init__(self, runtime: AgentRuntime, path: Path) -> None:
        self._runtime = runtime
        self.path = path
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._is_closing = False

    async def start(self) -> None:
        """Listen; raises `UsageError` where somebody else does already."""
        if len(str(self.path).encode()) > LONGEST_PATH:
            raise UsageError(f"{self.path} is too long for a socket", fix="choose a shorter one: --socket PATH")
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
        await self._take_over()
        self._server = await asyncio.start_unix_server(self._serve, self.path, limit=LONGEST_LINE)
        self.path.chmod(0o600)
        await self._runtime.hooks.run("gateway_start", {"socket": str(self.path)}, {})

    async def close(self, reason: str = "closed") -> None:
        """Stop listening, hang up, and tell plugins."""
        if self._server is None:
            return
        self._is_closing = True
        self._server.close()
        for connection in list(self._connections):
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        self.path.unlink(missing_ok=True)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SESSION_END_SECONDS):
                await self._runtime.end_sessions("shutdown")
        await self._runtime.hooks.run("gateway_stop", {"reason": reason}, {})

    async def _take_over(self) -> None:
        """Remove the socket of a server that died."""
        if not self.path.exists():
            return
        try:
            _, writer = await asyncio.open_unix_connection(self.path)
        except (ConnectionRefusedError, FileNotFoundError):
            self.path.unlink(missing_ok=True)
            return
        writer.close()
        raise UsageError(f"another agent server listens on {self.path}", fix="use that one, or end it first")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.current_task()
        assert connection is not None
        if self._is_closing:
            writer.close()  # it was accepted a moment before
            return
        self._connections.add(connection)
        try:
            await _Connection(self._runtime, reader, writer).serve()
        except asyncio.CancelledError:
            pass  # the server closes
        finally:
            self._connections.discard(connection)
            writer.close()


class _Connection:
    def __init__(self, runtime: AgentRuntime, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._runtime = runtime
        self._reader = reader
        self._writer = writer
        self._answering: set[asyncio.Task[None]] = set()
        self._attached: list[str] = []
        self._listening: list[Callable[[], None]] = []

    async def serve(self) -> None:
        try:
            while line := await self._reader.readline():
                await self._take(line)
        except (ConnectionError, ValueError):
            self._tell({"ok": False, "error": {"message": "a line is too long, or the connection broke"}})
        finally:
            for stop in self._listening:
                stop()
            for task in self._answering:
                task.cancel()
            for run_id in self._attached:
                self._runtime.cancel(run_id, "its client went away", "disconnected")

    async def _take(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            request = msgspec.json.decode(line, type=Request)
        except (msgspec.DecodeError, RecursionError, ValueError) as error:
            self._tell({"id": None, "ok": False, "error": {"message": f"this is not a request: {error}"}})
            return
        while len(self._answering) >= MOST_WAITING:
            await asyncio.wait(self._answering, return_when=asyncio.FIRST_COMPLETED)
        task = asyncio.create_task(self._answer(request))
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _answer(self, request: Request) -> None:
        try:
            result = await self._call(request.method, request.params)
            self._tell({"id": request.id, "ok": True, "result": msgspec.to_builtins(result)})
        except msgspec.ValidationError as error:
            self._fail(request, "UsageError", f"the parameters of {request.method} are not right: {error}", None)
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
        if method == "events":
            if not self._listening:
                self._listening.append(runtime.streams.listen(self._pass_event))
                self._listening.append(Chats(runtime.streams, self._pass_chat).stop)
            return {"listening": True}
        raise UsageError(f"there is no method {method!r}", fix="agent, agent.wait, agent.outcome, agent.cancel, events")

    def _pass_event(self, event: AgentEvent) -> None:
        self._tell({"event": "agent", "payload": msgspec.to_builtins(event)})

    def _pass_chat(self, message: ChatMessage) -> None:
        self._tell({"event": "chat", "payload": msgspec.to_builtins(message)})

    def _fail(self, request: Request, kind: str, message: str, fix: str | None) -> None:
        self._tell({"id": request.id, "ok": False, "error": {"type": kind, "message": message, "fix": fix}})

    def _tell(self, document: dict[str, Any]) -> None:
        transport = self._writer.transport
        if transport.is_closing():
            return
        if transport.get_write_buffer_size() > MOST_BUFFERED:
            transport.abort()  # it does not read what it asked for
            return
        self._writer.write(msgspec.json.encode(document, enc_hook=str) + b"\n")


async def serve(
    environment: Mapping[str, str], path: Path | None, config: Path | None = None, arguments: Sequence[str] = ()
) -> None:
    """Serve until the process is told to end."""
    async with opened_runtime(environment, config=config, arguments=arguments) as runtime:
        server = AgentServer(runtime, path or socket_path(runtime.services.state_folder))
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        for one in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(one, ended.set)
        await server.start()
        try:
            await ended.wait()
        finally:
            await server.close("ended by a signal")
