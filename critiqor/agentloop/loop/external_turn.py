"""Turns that somebody else makes: another program that is given the message and reports its progress.

The loop keeps its session, its lanes, its transcript and its limits. A turn that was accepted and then shows no
progress is aborted, so that its session does not wait for it forever.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from critiqor.agentloop.event_streams import EventStreams
from critiqor.agentloop.models.watchdogs import Silence
from critiqor.agentloop.runs import Run
from critiqor.errors import CritiqorError


class StalledTurnError(CritiqorError):
    """An external turn stopped making progress."""


class Progress:
    """Through which an external turn shows that it goes on."""

    def __init__(self, run: Run, streams: EventStreams, silence: Silence) -> None:
        self._run = run
        self._streams = streams
        self._silence = silence
        self.text = ""

    def said(self, text: str) -> None:
        """More words of the answer."""
        self.text += text
        self._silence.heard()
        self._run.emit(self._streams, "assistant", text=self.text, delta=text)

    def went_on(self, **facts: Any) -> None:
        """Anything else that is progress."""
        self._silence.heard()
        self._run.emit(self._streams, "run_status", phase="progress", **facts)


class ExternalRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What an external turn is given."""

    run_id: str
    session_key: str
    session_id: str
    message: str


ExternalTurn = Callable[[ExternalRequest, Progress], Awaitable[str]]
"""Makes a turn and returns the whole answer; cancelling it ends it."""


async def make_external_turn(run: Run, turn: ExternalTurn, streams: EventStreams, idle_seconds: float | None) -> str:
    """Let it make the turn; raises `StalledTurnError` when it shows no progress for so long."""
    request = ExternalRequest(
        run_id=run.id, session_key=run.session.key, session_id=run.session.id, message=run.message
    )
    try:
        async with Silence(idle_seconds) as silence:
            return await turn(request, Progress(run, streams, silence))
    except TimeoutError:
        raise StalledTurnError(
            f"the external turn was accepted and then made no progress for {idle_seconds:g} seconds",
            fix="send the message again",
        ) from None
