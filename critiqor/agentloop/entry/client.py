"""Client of the agent server on the local socket: method calls and events."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import msgspec

from critiqor.agentloop.entry.server import MAX_LINE_BYTES
from critiqor.agentloop.event_streams import AgentEvent, is_prompt_report
from critiqor.agentloop.runs import AgentParams, RunOutcome
from critiqor.errors import CritiqorError


class NoServerError(CritiqorError):
    """No server listens on the socket."""


class AgentClient:
    """A connection to the server, used with `async with`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last_id = 0
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._events: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()

    async def __aenter__(self) -> AgentClient:
        try:
            self._reader, self._writer = await asyncio.open_unix_connection(self._path, limit=MAX_LINE_BYTES)
        except OSError as error:
            raise NoServerError(
                f"no agent server listens on {self._path}", fix="start one: critiqor-agentloop gateway run"
            ) from error
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._reading.cancel()
        self._writer.close()

    async def call(self, method: str, **params: Any) -> Any:
        """Call a method and return its result. Raises `CritiqorError` with the server's error message."""
        if self._reading.done():
            raise _connection_lost()
        self._last_id += 1
        request_id = self._last_id
        answer = self._pending[request_id] = asyncio.get_running_loop().create_future()
        self._writer.write(msgspec.json.encode({"id": request_id, "method": method, "params": params}) + b"\n")
        try:
            await self._writer.drain()
            return await answer
        finally:
            self._pending.pop(request_id, None)

    async def next_event(self) -> dict[str, Any]:
        """Return the next event. Call the method `events` first to subscribe."""
        event = await self._events.get()
        if event is None:
            self._events.put_nowait(None)  # the next caller must see the end as well
            raise _connection_lost()
        return event

    def received_events(self) -> list[dict[str, Any]]:
        """Return the events that have arrived and were not read yet."""
        events = []
        while not self._events.empty() and (event := self._events.get_nowait()) is not None:
            events.append(event)
        return events

    async def _read(self) -> None:
        try:
            while line := await self._reader.readline():
                self._handle(msgspec.json.decode(line, type=dict[str, Any]))
        except (OSError, ValueError, msgspec.DecodeError):
            pass  # the connection is lost either way
        finally:
            self._events.put_nowait(None)
            for answer in self._pending.values():
                if not answer.done():
                    answer.set_exception(_connection_lost())

    def _handle(self, document: dict[str, Any]) -> None:
        if "event" in document:
            self._events.put_nowait(document)
            return
        answer = self._pending.get(document.get("id", 0))
        if answer is None or answer.done():
            return
        if document.get("ok"):
            answer.set_result(document.get("result"))
        else:
            error = document.get("error") or {}
            answer.set_exception(CritiqorError(str(error.get("message")), fix=error.get("fix")))


def _connection_lost() -> CritiqorError:
    return CritiqorError(
        "the connection to the agent server was lost", fix="start it again: critiqor-agentloop gateway run"
    )


class ServedRun(NamedTuple):
    """A run on a server that has ended."""

    outcome: RunOutcome
    traces: list[dict[str, Any]]
    """Reports on its prompts, if the run was traced."""


async def run_on_server(path: Path, params: AgentParams) -> ServedRun:
    """Run one message on a server. The run ends when this client disconnects."""
    async with AgentClient(path) as client:
        if params.trace == "on":
            await client.call("events")
        accepted = await client.call("agent", attached=True, **as_request(params))
        run_id = accepted["runId"]
        outcome = msgspec.convert(await client.call("agent.outcome", runId=run_id), type=RunOutcome)
        received = [event["payload"] for event in client.received_events() if event["event"] == "agent"]
        events = msgspec.convert(received, list[AgentEvent])
        return ServedRun(outcome, [event.data["report"] for event in events if is_prompt_report(event, run_id)])


def as_request(params: AgentParams) -> dict[str, Any]:
    """Return the parameters of a run as those of a method call to the server."""
    return {name: value for name, value in msgspec.to_builtins(params).items() if value is not None}


async def call_server(path: Path, method: str, **params: Any) -> Any:
    """Call one method of the server and return its result. Raises `NoServerError` if there is no server."""
    async with AgentClient(path) as client:
        return await client.call(method, **params)
