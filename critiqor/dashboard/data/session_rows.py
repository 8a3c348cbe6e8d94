"""Rows of the tables of sessions: those of one run with what was said, and those of all runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from critiqor.conversation.entries import Session
from critiqor.dashboard.data.conversations import Conversations
from critiqor.dashboard.data.run_page_data import RunPageData
from critiqor.model import Readiness, SessionDiagnosis, ms_from_iso
from critiqor.model.diagnosis import READINESSES
from critiqor.model.formatting import format_identifier, format_session, format_session_cost
from critiqor.model.sanitize import excerpt

MAX_WORDS = 200
"""Maximum length of a message in a row in characters."""


class SessionRow(NamedTuple):
    """One session in a table."""

    run_id: str
    key: str | None
    name: str
    agent: str
    readiness: Readiness | None = None
    """None if the session is not among those of the diagnosis."""
    trust: int | None = None
    task: str = ""
    """Whether the task was done; empty if that is unknown."""
    asked: str = ""
    """The first words of the user."""
    cost: str = ""
    cost_usd: float | None = None
    findings: int = 0
    created_at: str = ""
    duration_ms: float | None = None
    """From the start of its first agent run to the end of its last one."""
    messages: int = 0
    tool_calls: int = 0
    failures: int = 0
    depth: int = 0
    """How many sessions it is nested in: a subagent is in the session that started it."""
    number: int = 0
    request: int | None = None
    """The event with the first message of the user."""
    answer: int | None = None
    """The event with the last words of the agent."""
    last_words: str = ""


class SessionFilter(NamedTuple):
    """Filter and order of a table of sessions; an empty text matches every session."""

    text: str = ""
    verdict: str = ""
    agent: str = ""
    sort: str = ""
    """A key of `SORTS`, with a minus sign for the opposite order."""

    def matches(self, row: SessionRow) -> bool:
        """Return whether a session matches."""
        words = f"{row.run_id} {row.name} {row.agent} {row.task} {row.asked} {row.last_words}".lower()
        return (
            all(word in words for word in self.text.lower().split())
            and self.verdict in ("", row.readiness)
            and self.agent in ("", row.agent)
        )

    def apply(self, rows: Iterable[SessionRow]) -> list[SessionRow]:
        """Return the matching rows in the wanted order. Without one, they keep theirs."""
        found = [row for row in rows if self.matches(row)]
        order = SORTS.get(self.sort.removeprefix("-"))
        if order is None:
            return found
        ordered = sorted(found, key=order, reverse=self.sort.startswith("-"))
        return [row._replace(depth=0) for row in ordered]


SORTS: dict[str, Callable[[SessionRow], tuple[float | str, ...]]] = {
    "session": lambda row: (row.name,),
    "agent": lambda row: (row.agent, row.name),
    "verdict": lambda row: (len(READINESSES) if row.readiness is None else READINESSES.index(row.readiness), row.name),
    "trust": lambda row: (101 if row.trust is None else row.trust, row.name),
    "cost": lambda row: (row.cost_usd or 0.0, row.name),
    "time": lambda row: (row.duration_ms or 0, row.name),
    "calls": lambda row: (row.tool_calls, row.name),
    "started": lambda row: (row.created_at, row.name),
}
"""What tables of sessions can be sorted by."""


def agent_of_session(session_key: str | None, default: str) -> str:
    """Return the agent in the row of a session: the one that OpenClaw names in the session key, or the default."""
    parts = (session_key or "").split(":")
    return parts[1] if len(parts) > 2 and parts[0] == "agent" and parts[1] else default


def judged_row(run_id: str, agent: str, created_at: str, session: SessionDiagnosis, *, is_proven: bool) -> SessionRow:
    """Return the row of a session from its diagnosis, without its words."""
    return SessionRow(
        run_id=run_id,
        key=session.session_key,
        name=format_session(session.session_key),
        agent=agent_of_session(session.session_key, agent),
        readiness=session.readiness,
        # The trust of a session is as little proven as that of the run.
        trust=session.trust_score if is_proven else None,
        task="" if session.task.verdict == "unknown" else format_identifier(session.task.verdict),
        cost=format_session_cost(session),
        cost_usd=session.cost_usd,
        findings=len(session.findings),
        created_at=created_at,
    )


def run_session_rows(data: RunPageData, conversations: Conversations) -> list[SessionRow]:
    """Return the sessions of a run: the worst first, each followed by those of its subagents."""
    sessions = conversations.source.sessions()
    by_parent: dict[int | None, list[Session]] = {}
    numbers = {session.number for session in sessions}
    for session in sessions:
        parent = session.parent if session.parent in numbers and session.parent != session.number else None
        by_parent.setdefault(parent, []).append(session)
    ranks = {key: rank for rank, key in enumerate(conversations.judged)}
    rows: list[SessionRow] = []
    waiting = [(session, 0) for session in _worst_first(by_parent.pop(None, []), conversations, ranks)]
    index = data.index()
    times = index.session_times() if index is not None else {}
    while waiting:
        session, depth = waiting.pop(0)
        duration_ms = times.get(session.number) if index is not None else _observed_ms(session)
        rows.append(_row(data, conversations, session, depth, duration_ms))
        children = _worst_first(by_parent.pop(session.number, []), conversations, ranks)
        waiting[:0] = [(child, depth + 1) for child in children]
    return rows


def with_words(conversations: Conversations, rows: Sequence[SessionRow]) -> list[SessionRow]:
    """Return rows with the first words of their users and the last ones of their agents, read from the evidence."""

    def text(number: int | None) -> str:
        found = conversations.message(number)
        return excerpt("".join(piece.text for piece in found.pieces) if found is not None else "", MAX_WORDS)

    return [row._replace(asked=text(row.request), last_words=text(row.answer)) for row in rows]


def _observed_ms(session: Session) -> int | None:
    """Return the time from the first to the last event: all that is known of a session without an index."""
    started, ended = ms_from_iso(session.started_at), ms_from_iso(session.ended_at)
    return None if started is None or ended is None else max(0, ended - started)


def _worst_first(sessions: list[Session], conversations: Conversations, ranks: dict[str | None, int]) -> list[Session]:
    return sorted(sessions, key=lambda each: (ranks.get(conversations.name(each), len(ranks)), each.number))


def _row(
    data: RunPageData, conversations: Conversations, session: Session, depth: int, duration_ms: float | None
) -> SessionRow:
    name = conversations.name(session)
    agent = data.head.metadata.agent_id
    judged = conversations.judged.get(name)
    is_proven = data.verdict is not None and data.verdict.trust is not None
    row = (
        SessionRow(data.run_id, name, format_session(name), agent_of_session(name, agent))
        if judged is None
        else judged_row(data.run_id, agent, "", judged, is_proven=is_proven)
    )
    return row._replace(
        created_at=session.started_at,
        duration_ms=duration_ms if data.has_times else None,
        messages=session.messages,
        tool_calls=session.tool_calls,
        failures=session.failures,
        depth=depth,
        number=session.number,
        request=session.request,
        answer=session.answer,
    )
