"""External agents: other programs that answer a message in place of the loop and report their progress.

The loop still provides session, lanes, transcript and limits. An external agent that accepts a message and then shows
no progress is aborted, so that it does not block its session forever.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from critiqor.agentloop.event_streams import EventStreams
from critiqor.agentloop.models.timeouts import IdleTimeout
from critiqor.agentloop.runs import Run
from critiqor.errors import CritiqorError


class ExternalAgentStalledError(CritiqorError):
    """An external agent stopped making progress."""


class ExternalProgress:
    """Progress reports of an external agent."""

    def __init__(self, run: Run, streams: EventStreams, idle: IdleTimeout) -> None:
        self._run = run
        self._streams = streams
        self._idle = idle
        self.text = ""

    def add_text(self, text: str) -> None:
        """Report more text of the external agent's answer."""
        self.text += text
        self._idle.reset()
        self._run.emit(self._streams, "assistant", text=self.text, delta=text)

    def report(self, **facts: Any) -> None:
        """Report any other progress of the external agent."""
        self._idle.reset()
        self._run.emit(self._streams, "run_status", phase="progress", **facts)


class ExternalRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What an external agent receives."""

    run_id: str
    session_key: str
    session_id: str
    message: str


ExternalAgent = Callable[[ExternalRequest, ExternalProgress], Awaitable[str]]
"""Answers a message and returns the whole answer. It is cancelled when the run is aborted."""


async def run_external_agent(run: Run, agent: ExternalAgent, streams: EventStreams, idle_seconds: float | None) -> str:
    """Return the answer of an external agent.

    Raises `ExternalAgentStalledError` when it reports no progress for `idle_seconds`.
    """
    request = ExternalRequest(
        run_id=run.id, session_key=run.session.key, session_id=run.session.id, message=run.message
    )
    try:
        async with IdleTimeout(idle_seconds) as idle:
            return await agent(request, ExternalProgress(run, streams, idle))
    except TimeoutError:
        raise ExternalAgentStalledError(
            f"the external agent accepted the message and then made no progress for {idle_seconds:g} seconds",
            fix="send the message again",
        ) from None
