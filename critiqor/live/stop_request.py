"""A user's request to stop an agent that is being recorded: `runs/<run_id>/stop.json`.

The live diagnosis of the recording takes the file and acts as if a limit with the action `stop` were exceeded, so that
stopping has one implementation. An agent could write the file as well, but only to stop itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import msgspec

from critiqor.live.verdict import LiveLimit
from critiqor.model import iso_from_ms, now_ms
from critiqor.model.event import USER_STOP
from critiqor.run.store import Run
from critiqor.storage.atomic import open_regular_file, write_bytes

MAX_BYTES = 1 << 20
_TEXT = "a request of the user"


class StoppedSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session whose agent run is to be aborted."""

    session_key: str | None
    agent_run_id: str | None = None


class StopRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be stopped."""

    at: str
    """UTC, ISO 8601."""
    sessions: list[StoppedSession] = []
    """Empty for everything."""


def request_stop(run: Run, sessions: Sequence[StoppedSession]) -> None:
    """Ask the live diagnosis of a recording to stop sessions of it, or all of it."""
    request = StopRequest(at=iso_from_ms(now_ms()), sessions=list(sessions))
    write_bytes(run.paths.stop_path(run.id), msgspec.json.encode(request), synced=False)


def withdraw_stop(run: Run) -> bool:
    """Withdraw a request. Return whether nobody had taken it."""
    try:
        run.paths.stop_path(run.id).unlink()
    except FileNotFoundError:
        return False
    return True


def is_stop_taken(run: Run) -> bool:
    """Return whether a request was taken."""
    return not run.paths.stop_path(run.id).exists()


def take_stop(run: Run) -> list[LiveLimit]:
    """Take a request, if there is one, as the limits that it stands for."""
    path = run.paths.stop_path(run.id)
    try:
        with open_regular_file(path, follow_links=False) as file:
            data = file.read(MAX_BYTES)
        path.unlink()
        request = msgspec.json.decode(data, type=StopRequest)
    except OSError:
        return []
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        with contextlib.suppress(OSError):
            path.unlink()
        return []
    sessions = request.sessions or [StoppedSession(session_key=None)]
    return [_limit(request, session) for session in sessions]


def is_stop_of_all(limit: LiveLimit) -> bool:
    """Return whether the user wants the whole run to be stopped, and not one session."""
    return limit.name == USER_STOP and limit.session_key is None


def _limit(request: StopRequest, session: StoppedSession) -> LiveLimit:
    return LiveLimit(
        name=USER_STOP,
        action="stop",
        text=_TEXT,
        session_key=session.session_key,
        agent_run_id=session.agent_run_id,
        event_id=None,
        at=request.at,
    )
