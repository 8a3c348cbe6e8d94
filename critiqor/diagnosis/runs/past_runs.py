"""What is kept of agent runs that are over: their number in each session, and the ids of the first and last ones."""

from __future__ import annotations

from bisect import insort
from typing import NamedTuple

from critiqor.diagnosis.scoring import MAX_AGENT_RUNS
from critiqor.spans.agent_run import AgentRun

_HALF = MAX_AGENT_RUNS // 2


class PastRun(NamedTuple):
    """An agent run that is over."""

    number: int
    """Position of its first event in the recording."""
    agent_run_id: str | None


class _PastOfSession:
    def __init__(self) -> None:
        self.total = 0
        self.listed: list[PastRun] = []


class PastRuns:
    """Agent runs whose history was dropped altogether, by session."""

    def __init__(self) -> None:
        self._sessions: dict[str | None, _PastOfSession] = {}
        self.have_worked = False
        """Whether anything is known about what one of them did."""

    def __bool__(self) -> bool:
        return bool(self._sessions)

    def add(self, run: AgentRun) -> None:
        """Add an agent run that is over."""
        session = self._sessions.get(run.scope.session_key)
        if session is None:
            session = self._sessions[run.scope.session_key] = _PastOfSession()
        session.total += 1
        insort(session.listed, PastRun(run.number, run.scope.agent_run_id))
        if len(session.listed) > MAX_AGENT_RUNS:
            del session.listed[_HALF]
        self.have_worked = self.have_worked or run.has_worked

    def of(self, session_key: str | None) -> list[PastRun]:
        """Return the first and the last ones of a session, in order of start."""
        session = self._sessions.get(session_key)
        return [] if session is None else session.listed

    def count(self, session_key: str | None) -> int:
        """Return how many a session has."""
        session = self._sessions.get(session_key)
        return 0 if session is None else session.total
