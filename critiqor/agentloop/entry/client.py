"""A client of the local socket: calls by name, and events for whoever listens."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from critiqor.agentloop.entry.server import LONGEST_LINE
from critiqor.agentloop.runs import AgentParams, RunOutcome
from critiqor.errors import CritiqorError


class NoServerError(CritiqorError):
    """Nobody listens on the socket."""


class AgentClient:
    """A connection, for an `async with` block."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._number = 0
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._events: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()

    async def __aenter__(self) -> AgentClient:
        try:
            self._reader, self._writer = await asyncio.open_unix_connection(self._path, limit=LONGEST_LINE)
        except OSError as error:
            raise NoServerError(
                f"there is no agent server on {self._path}", fix="python -m critiqor.agentloop gateway run"
            ) from error
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._reading.cancel()
        self._writer.close()

    async def call(self, method: str, **params: Any) -> Any:
        """Call a method; raises `CritiqorError` with the words of the server."""
        if self._reading.done():
            raise _gone()
        self._number += 1
        number = self._number
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        self._writer.write(msgspec.json.encode({"id": number, "method": method, "params": params}) + b"\n")
        try:
            await self._writer.drain()
            return await answer
        finally:
            self._waiting.pop(number, None)

    async def event(self) -> dict[str, Any]:
        """The next event, after `events` was called."""
        event = await self._events.get()
        if event is None:
            self._events.put_nowait(None)  # for whoever asks next
            raise _gone()
        return event

    async def _read(self) -> None:
        try:
            while line := await self._reader.readline():
                self._take(msgspec.json.decode(line, type=dict[str, Any]))
        except (OSError, ValueError, msgspec.DecodeError):
            pass  # what follows is true in any case
        finally:
            self._events.put_nowait(None)
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_exception(_gone())

    def _take(self, document: dict[str, Any]) -> None:
        if "event" in document:
            self._events.put_nowait(document)
            return
        answer = self._waiting.get(document.get("id", 0))
        if answer is None or answer.done():
            return
        if document.get("ok"):
            answer.set_result(document.get("result"))
        else:
            error = document.get("error") or {}
            answer.set_exception(CritiqorError(str(error.get("message")), fix=error.get("fix")))


def _gone() -> CritiqorError:
    return CritiqorError("the agent server went away", fix="start it again")


async def turn_elsewhere(path: Path, params: AgentParams) -> RunOutcome:
    """Let a server make one turn, and end it when this client is ended."""
    async with AgentClient(path) as client:
        asked = {name: value for name, value in msgspec.to_builtins(params).items() if value is not None}
        accepted = await client.call("agent", attached=True, **asked)
        return msgspec.convert(await client.call("agent.outcome", runId=accepted["runId"]), type=RunOutcome)
