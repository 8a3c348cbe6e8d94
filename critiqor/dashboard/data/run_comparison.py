"""Two runs side by side: their sessions, each tool call beside the one that takes its place, and their answers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import NamedTuple

from critiqor.comparison.call_alignment import AlignedCall, Relation, align_calls
from critiqor.comparison.text_diff import DiffPiece, text_diff
from critiqor.conversation.entries import Session
from critiqor.dashboard.data.conversation_source import EntryFilter
from critiqor.dashboard.data.conversations import Conversations, ShownEntry
from critiqor.dashboard.data.run_page_data import RunPageData
from critiqor.model.formatting import format_duration_change, format_session

MAX_SESSIONS = 50
"""Maximum number of sessions that are compared, the worst ones."""
MAX_CALLS = 1000
"""Maximum number of tool calls of a session that are compared, the first ones."""


class ComparedCallRow(NamedTuple):
    """A tool call of one run beside that of the other."""

    session: str
    """The name of the session, in the first row of the session."""
    before: ShownEntry | None
    after: ShownEntry | None
    relation: Relation
    arguments: list[DiffPiece]
    result: list[DiffPiece]
    time: str
    """By how much its duration changed, with its sign; empty if it is unknown."""

    @property
    def call(self) -> ShownEntry:
        """The call of the second run, or of the first if there is none."""
        call = self.after or self.before
        assert call is not None
        return call


class AnswerRow(NamedTuple):
    """The last words of the agent in a session of both runs."""

    before: str | None
    """The session of the first run."""
    after: str | None
    has_before: bool
    has_after: bool
    request: list[DiffPiece]
    answer: list[DiffPiece]

    @property
    def is_same(self) -> bool:
        return all(piece.kind == "same" for piece in self.answer)

    @property
    def is_of_other_task(self) -> bool:
        """Whether the user asked for something else in the second run."""
        return self.has_before and self.has_after and any(piece.kind != "same" for piece in self.request)


class RunComparison:
    """The conversations of two runs, session by session."""

    def __init__(self, before: RunPageData, after: RunPageData) -> None:
        for data in (before, after):
            data.conversations_with_index()
        self._before, self._after = Conversations(before), Conversations(after)
        self.is_complete = self._before.source.is_complete and self._after.source.is_complete
        self._pairs = list(_matched_sessions(self._before, self._after))[:MAX_SESSIONS]

    def calls(self) -> list[ComparedCallRow]:
        """Return all tool calls in order, session by session, without their differences."""
        rows: list[ComparedCallRow] = []
        for before, after in self._pairs:
            old, new = _calls(self._before, before), _calls(self._after, after)
            pairs = align_calls([_compared(each) for each in old], [_compared(each) for each in new])
            name = _name(self._before, self._after, before, after)
            for number, (first, second, relation) in enumerate(pairs):
                one = None if first is None else old[first]
                other = None if second is None else new[second]
                rows.append(ComparedCallRow("" if number else name, one, other, relation, [], [], _time(one, other)))
        return rows

    def answers(self) -> list[AnswerRow]:
        """Return the requests and the last words of all sessions."""
        rows = []
        for before, after in self._pairs:
            old, new = _exchange(self._before, before), _exchange(self._after, after)
            rows.append(
                AnswerRow(
                    None if before is None else self._before.name(before),
                    None if after is None else self._after.name(after),
                    before is not None,
                    after is not None,
                    text_diff(old[0], new[0]),
                    text_diff(old[1], new[1]),
                )
            )
        return [row for row in rows if row.request or row.answer]


def with_differences(rows: list[ComparedCallRow]) -> list[ComparedCallRow]:
    """Return rows of compared runs with the differences between arguments and results, for those that are shown."""
    return [
        row._replace(
            arguments=text_diff(*(each.arguments if each else "" for each in (row.before, row.after))),
            result=text_diff(*(each.result if each else "" for each in (row.before, row.after))),
        )
        for row in rows
    ]


def _matched_sessions(before: Conversations, after: Conversations) -> Iterator[tuple[Session | None, Session | None]]:
    """Yield the sessions of both runs: those with the same key, then the others in order, the main ones first."""
    old = {session.key: session for session in before.source.sessions()}
    new = {session.key: session for session in after.source.sessions()}
    yield from ((session, new[key]) for key, session in old.items() if key in new)
    rest = [session for key, session in old.items() if key not in new]
    others = [session for key, session in new.items() if key not in old]
    yield from zip_longest(rest, others)


def _calls(conversations: Conversations, session: Session | None) -> list[ShownEntry]:
    if session is None:
        return []
    return conversations.entries(EntryFilter(session.number, "tools"), 0, MAX_CALLS)[0]


def _compared(call: ShownEntry) -> AlignedCall:
    return AlignedCall(call.event.tool_name or "", call.arguments, call.result, call.entry.is_failed)


def _exchange(conversations: Conversations, session: Session | None) -> tuple[str, str]:
    """Return the first message of the user and the last words of the agent."""
    numbers = (None, None) if session is None else (session.request, session.answer)
    found = [conversations.message(number) for number in numbers]
    request, answer = ("".join(piece.text for piece in each.pieces) if each is not None else "" for each in found)
    return request, answer


def _name(before: Conversations, after: Conversations, old: Session | None, new: Session | None) -> str:
    names = [format_session(before.name(old))] if old is not None else []
    names += [format_session(after.name(new))] if new is not None else []
    return " → ".join(dict.fromkeys(names))


def _time(before: ShownEntry | None, after: ShownEntry | None) -> str:
    ends = [each.end for each in (before, after) if each is not None and each.end is not None]
    times = [end.duration_ms for end in ends if end.duration_ms is not None]
    if len(times) < 2:
        return ""
    change = format_duration_change(times[1] - times[0])
    return "same time" if change == "same" else change
