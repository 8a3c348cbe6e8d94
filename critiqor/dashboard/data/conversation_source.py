"""Conversations of a run for its pages: from its index, or from its first events if there is no index."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from critiqor.conversation.entries import MESSAGES, ConversationBuilder, Entry, Session
from critiqor.dashboard.data.event_index import EventIndex, Numbered
from critiqor.model import Event
from critiqor.search.terms import Search

Shown = Literal["", "messages", "tools", "problems"]
"""Which entries of a conversation are wanted; an empty text means all."""
MAX_SCANNED = 2000
"""Number of events that are read of a run without an index."""
_ENTRY = "session, place, kind, number, end, model, is_failed, is_inner, child, call"
_NUMBERS = "SELECT number FROM events WHERE event_id IN (SELECT value FROM json_each(?))"
MAX_REPEATS = 2000
"""Maximum number of calls that repeat one another and are recognized."""


class EntryFilter(NamedTuple):
    """Filter of the entries of one session."""

    session: int
    shown: Shown = ""
    text: str = ""
    marked: frozenset[str] = frozenset()
    """Ids of the events that are problems although nothing failed there: a finding or a claim cites them."""


class ConversationSource(Protocol):
    """What the pages of conversations read."""

    is_complete: bool
    """Whether it knows the whole run."""

    def sessions(self) -> list[Session]:
        """Return the sessions in the order in which they appear."""

    def session(self, key: str | None) -> Session | None:
        """Return a session by its key."""

    def entries(self, wanted: EntryFilter, offset: int, limit: int) -> tuple[list[Entry], int]:
        """Return the matching entries, starting at `offset`, and the number of all matching ones."""

    def place(self, wanted: EntryFilter, event_id: str) -> int | None:
        """Return how many matching entries precede the one of an event, or the next one; None for unknown events."""

    def events(self, numbers: Iterable[int]) -> dict[int, Event]:
        """Return events by their numbers."""

    def repeats(self, cited: Sequence[str]) -> list[str]:
        """Return the ids of the tool calls that are the same as a cited one, from the first to the last cited one."""


class IndexedConversations:
    """Conversations from the index of a sealed run."""

    is_complete = True

    def __init__(self, index: EventIndex) -> None:
        self._index = index

    def sessions(self) -> list[Session]:
        with self._index.query() as base:
            return [_session(row) for row in base.execute("SELECT * FROM sessions WHERE entries ORDER BY number")]

    def session(self, key: str | None) -> Session | None:
        with self._index.query() as base:
            row = base.execute("SELECT * FROM sessions WHERE key IS ? LIMIT 1", [key]).fetchone()
            return None if row is None else _session(row)

    def entries(self, wanted: EntryFilter, offset: int, limit: int) -> tuple[list[Entry], int]:
        where, values = _conditions(wanted)
        with self._index.query() as base:
            [total] = base.execute(f"SELECT count(*) FROM entries WHERE {where}", values).fetchone()
            rows = base.execute(
                f"SELECT {_ENTRY} FROM entries WHERE {where} ORDER BY place LIMIT ? OFFSET ?",
                [*values, limit, offset],
            )
            return [_entry(row) for row in rows], total

    def place(self, wanted: EntryFilter, event_id: str) -> int | None:
        where, values = _conditions(wanted)
        with self._index.query() as base:
            row = base.execute("SELECT number FROM events WHERE event_id = ? LIMIT 1", [event_id]).fetchone()
            if row is None:
                return None
            found = base.execute(
                "SELECT place FROM entries WHERE session = ? AND (number = ? OR end = ?) ORDER BY place LIMIT 1",
                [wanted.session, *row, *row],
            ).fetchone()
            before = ("place < ?", *found) if found else ("number < ?", *row)
            [count] = base.execute(
                f"SELECT count(*) FROM entries WHERE {where} AND {before[0]}", [*values, before[1]]
            ).fetchone()
        return int(count)

    def events(self, numbers: Iterable[int]) -> dict[int, Event]:
        wanted = sorted(set(numbers))
        marks = ",".join("?" * len(wanted))
        with self._index.query() as base:
            rows = base.execute(
                f"SELECT number, offset, length FROM events WHERE number IN ({marks})", wanted
            ).fetchall()
        return {each.number: each.event for each in self._index.read(rows)}

    def repeats(self, cited: Sequence[str]) -> list[str]:
        named = json.dumps(list(cited))
        with self._index.query() as base:
            found = base.execute(
                f"SELECT session, place, call FROM entries WHERE call NOT NULL"
                f" AND (number IN ({_NUMBERS}) OR end IN ({_NUMBERS}))",
                [named, named],
            ).fetchall()
            if not found:
                return []
            session = found[0][0]
            places = [place for of, place, _ in found if of == session]
            rows = base.execute(
                "SELECT event_id FROM entries JOIN events ON events.number = entries.number WHERE entries.session = ?"
                " AND place BETWEEN ? AND ? AND call IN (SELECT value FROM json_each(?)) ORDER BY place LIMIT ?",
                [session, min(places), max(places), json.dumps([call for *_, call in found]), MAX_REPEATS],
            )
            return [event_id for (event_id,) in rows]


class ScannedConversations:
    """Conversations from the first events of a run that has no index yet: one that is being recorded or indexed."""

    def __init__(self, events: Iterable[Numbered]) -> None:
        read = list(islice(events, MAX_SCANNED + 1))
        self.is_complete = len(read) <= MAX_SCANNED
        self._events = {each.number: each.event for each in read[:MAX_SCANNED]}
        builder, entries = ConversationBuilder(), dict[tuple[int, int], Entry]()
        for number, event in self._events.items():
            entry = builder.observe(number, event)
            if entry is not None:
                entries[entry.session, entry.place] = entry
        self._entries = list(entries.values())
        self._sessions = builder.sessions

    def sessions(self) -> list[Session]:
        return sorted((each for each in self._sessions.values() if each.entries), key=lambda each: each.number)

    def session(self, key: str | None) -> Session | None:
        return self._sessions.get(key)

    def entries(self, wanted: EntryFilter, offset: int, limit: int) -> tuple[list[Entry], int]:
        found = self._matching(wanted)
        return found[offset : offset + limit], len(found)

    def place(self, wanted: EntryFilter, event_id: str) -> int | None:
        number = next((number for number, event in self._events.items() if event.event_id == event_id), None)
        if number is None:
            return None
        ends = [entry.place for entry in self._matching(EntryFilter(wanted.session)) if entry.end == number]
        found = self._matching(wanted)
        return sum(entry.place < ends[0] if ends else entry.number < number for entry in found)

    def events(self, numbers: Iterable[int]) -> dict[int, Event]:
        return {number: self._events[number] for number in numbers if number in self._events}

    def repeats(self, cited: Sequence[str]) -> list[str]:
        named = set(cited)
        found = [entry for entry in self._entries if entry.call and not named.isdisjoint(self._ids(entry))]
        if not found:
            return []
        places, calls = [entry.place for entry in found], {entry.call for entry in found}
        between = (
            entry
            for entry in self._entries
            if entry.session == found[0].session and min(places) <= entry.place <= max(places) and entry.call in calls
        )
        return [self._events[entry.number].event_id for entry in islice(between, MAX_REPEATS)]

    def _ids(self, entry: Entry) -> list[str]:
        return [event.event_id for event in self.events((entry.number, entry.end or 0)).values()]

    def _matching(self, wanted: EntryFilter) -> list[Entry]:
        search = Search(wanted.text)
        return [
            entry
            for entry in self._entries
            if entry.session == wanted.session
            and (wanted.shown != "messages" or entry.kind in MESSAGES)
            and (wanted.shown != "tools" or entry.kind == "tool")
            and (wanted.shown != "problems" or self._is_problem(entry, wanted))
            and (not search or any(map(search.matches, self.events((entry.number, entry.end or 0)).values())))
        ]

    def _is_problem(self, entry: Entry, wanted: EntryFilter) -> bool:
        return entry.is_failed or entry.kind == "retry" or not wanted.marked.isdisjoint(self._ids(entry))


def _conditions(wanted: EntryFilter) -> tuple[str, Sequence[Any]]:
    conditions, values = ["session = ?"], list[Any]([wanted.session])
    if wanted.shown == "messages":
        conditions.append(f"kind IN ({','.join('?' * len(MESSAGES))})")
        values += MESSAGES
    elif wanted.shown == "tools":
        conditions.append("kind = 'tool'")
    elif wanted.shown == "problems":
        conditions.append(f"(is_failed OR kind = 'retry' OR number IN ({_NUMBERS}) OR end IN ({_NUMBERS}))")
        values += [json.dumps(sorted(wanted.marked))] * 2
    if search := Search(wanted.text):
        found = "(SELECT rowid FROM words WHERE words MATCH ?)"
        conditions.append(f"(number IN {found} OR end IN {found})")
        values += [search.expression] * 2
    return " AND ".join(conditions), values


def _entry(row: Sequence[Any]) -> Entry:
    return msgspec.convert(dict(zip(Entry.__struct_fields__, row, strict=True)), Entry, strict=False)


def _session(row: Sequence[Any]) -> Session:
    return msgspec.convert(dict(zip(Session.__struct_fields__, row, strict=True)), Session, strict=False)
