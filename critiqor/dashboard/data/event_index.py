"""The index of one sealed run: the place of each event in session.json, its words, conversations and time chart.

It contains no events, only their places, so everything that is shown comes from the evidence. It can be rebuilt at any
time, and is rebuilt when the seal or the file has changed, or when it is damaged.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from critiqor.dashboard.data.event_kinds import PLUMBING, is_plumbing
from critiqor.dashboard.data.time_chart import Bar
from critiqor.errors import BrokenRecordError
from critiqor.model import Event
from critiqor.search.terms import Search
from critiqor.storage.session_document import event_at

INDEX_VERSION = "5"
# 1: first form.
# 2: bars of model calls with their tools are called steps.
# 3: sessions and their conversations.
# 4: the sessions of bars, and the messages of agent runs.
# 5: durations of events, starts of agent runs, equal tool calls, and bars with the durations that calls reported.
FIELDS = ("event_type", "source_layer", "tool_name", "status")
"""Fields that events can be filtered by."""
_MAX_FACETS = 20_000
"""Maximum number of combinations of values that are counted, the most frequent ones."""


class EventFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Filter of events; an empty text matches every event."""

    event_type: str = ""
    source_layer: str = ""
    tool_name: str = ""
    status: str = ""
    text: str = ""
    session: int | None = None
    """Number of a session."""
    min_ms: float = 0
    """Least duration in milliseconds; events without a duration match only 0."""
    folds: bool = False
    """Whether events that say nothing by themselves are left out, unless they failed."""

    @property
    def names(self) -> dict[str, str]:
        """The filtered fields and their values."""
        return {field: value for field in FIELDS if (value := getattr(self, field))}

    def matches(self, event: Event) -> bool:
        """Return whether an event matches the filter; does not use an index."""
        if any(getattr(event, field) != value for field, value in self.names.items()):
            return False
        if self.folds and event.status != "error" and is_plumbing(event.event_type):
            return False
        if self.min_ms and (event.duration_ms is None or event.duration_ms < self.min_ms):
            return False
        search = Search(self.text)
        return not search or search.matches(event)


class Numbered(NamedTuple):
    """An event and its number within the run, starting at 1."""

    number: int
    event: Event


class Found(NamedTuple):
    """One page of events."""

    events: list[Numbered]
    total: int
    """Number of events on all pages."""


class SessionName(NamedTuple):
    """A session of a run, by its number and its key."""

    number: int
    key: str


class RunStart(NamedTuple):
    """How an agent run began."""

    first: int
    """Its first event."""
    message: int | None
    """The event with the message that it answers."""
    at_ms: int | None


class Facet(NamedTuple):
    """Events with the same values of the fields."""

    values: dict[str, str | None]
    session: int | None
    times: int


class EventIndex:
    """A finished index. Each query opens the file, so that any thread can query it."""

    def __init__(self, file: Path, document: Path) -> None:
        self._file = file
        self._document = document

    def is_of(self, digest: str) -> bool:
        """Return whether the index was built from this sealed evidence, and from the current file."""
        try:
            with closing(self._connect()) as base:
                if base.execute("SELECT 1 FROM sqlite_master WHERE type IN ('view', 'trigger')").fetchone():
                    return False
                facts = dict(base.execute("SELECT name, value FROM facts"))
            return facts.get("made_of") == evidence_mark(self._document, digest)
        except (sqlite3.Error, BrokenRecordError):
            return False

    def find(self, wanted: EventFilter, offset: int, limit: int) -> Found:
        """Return the matching events, starting at `offset`."""
        search = Search(wanted.text)
        conditions = ["words MATCH ?"] if search else []
        conditions += [f"{field} = ?" for field in wanted.names]
        values: list[Any] = [search.expression, *wanted.names.values()] if search else list(wanted.names.values())
        if wanted.session is not None:
            conditions.append("session = ?")
            values.append(wanted.session)
        if wanted.min_ms:
            conditions.append("duration_ms >= ?")
            values.append(wanted.min_ms)
        if wanted.folds:
            conditions.append(f"(status = 'error' OR event_type NOT IN ({','.join('?' * len(PLUMBING))}))")
            values += PLUMBING
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        # Matches come in the order of their numbers, so the first page needs no sorting.
        source, order = ("words JOIN events ON number = words.rowid", "words.rowid") if search else ("events", "number")
        alone = "words" if search and len(conditions) == 1 else source
        with self.query() as base:
            [total] = base.execute(f"SELECT count(*) FROM {alone}{where}", values).fetchone()
            rows = base.execute(
                f"SELECT number, offset, length FROM {source}{where} ORDER BY {order} LIMIT ? OFFSET ?",
                [*values, limit, offset],
            ).fetchall()
        return Found(self.read(rows), total)

    def event(self, event_id: str) -> Numbered | None:
        """Return one event by its id."""
        with self.query() as base:
            rows = base.execute(
                "SELECT number, offset, length FROM events WHERE event_id = ? LIMIT 1", [event_id]
            ).fetchall()
        return next(iter(self.read(rows)), None)

    def session_of(self, number: int) -> SessionName | None:
        """Return the session of an event; None if it has none."""
        with self.query() as base:
            row = base.execute(
                "SELECT sessions.number, key FROM events JOIN sessions ON sessions.number = session"
                " WHERE events.number = ? AND entries",
                [number],
            ).fetchone()
        return None if row is None else SessionName(*row)

    def event_ids(self, numbers: Iterable[int]) -> dict[int, str]:
        """Return the ids of events by their numbers; those that do not exist are left out."""
        with self.query() as base:
            found = (base.execute("SELECT number, event_id FROM events WHERE number = ?", [each]) for each in numbers)
            return {number: event_id for rows in found for number, event_id in rows}

    def counterpart(self, number: int) -> int | None:
        """Return the number of the result of a call, or of the call of a result; None for other events."""
        with self.query() as base:
            row = base.execute(
                "SELECT number, end FROM entries WHERE number = ? OR end = ? LIMIT 1", [number, number]
            ).fetchone()
        pair = set(row or ()) - {number, None}
        return int(pair.pop()) if pair else None

    def moment(self, event_id: str) -> int | None:
        """Return the time of an event in microseconds since 1970."""
        with self.query() as base:
            found = base.execute("SELECT at_ms FROM events WHERE event_id = ? LIMIT 1", [event_id]).fetchone()
        return None if found is None or found[0] is None else int(found[0]) * 1000

    def names(self, field: str) -> dict[str, int]:
        """Return the values of a field with their counts, the most frequent first."""
        with self.query() as base:
            rows = base.execute("SELECT name, times FROM names WHERE field = ? ORDER BY times DESC, name", [field])
            return dict(rows.fetchall())

    def extent(self) -> tuple[int, int] | None:
        """Return when the run began, with its first bar or message, and the end of the last bar.

        The times are microseconds since 1970; None without bars.
        """
        with self.query() as base:
            first, last = base.execute("SELECT min(start_us), max(end_us) FROM bars").fetchone()
            agent = base.execute("SELECT value FROM facts WHERE name = 'first_ms'").fetchone()
        if first is None:
            return None
        return (first if agent is None else min(first, 1000 * int(agent[0])), last)

    def session_times(self) -> dict[int, float]:
        """Return how long sessions took, from the start of the first agent run to the end of the last one, in ms."""
        with self.query() as base:
            rows = base.execute("SELECT session, max(end_us) - min(start_us) FROM bars WHERE session GROUP BY session")
            return {session: duration / 1000 for session, duration in rows}

    def child_time(self, start_us: int, end_us: int) -> float | None:
        """Return the milliseconds that the child processes of a tool call took; None if none are known.

        OpenClaw notes the end of a process somewhat late, so one belongs to the last call that began before its end.
        With calls that overlap, it is not known whose process it was.
        """
        with self.query() as base:
            [others] = base.execute(
                "SELECT count(*) FROM bars WHERE kind = 'tool' AND start_us < ? AND end_us > ?", [end_us, start_us]
            ).fetchone()
            [following] = base.execute(
                "SELECT min(start_us) FROM bars WHERE kind = 'tool' AND start_us >= ?", [end_us]
            ).fetchone()
            until = (1 << 62) if following is None else following
            [took] = base.execute(
                "SELECT sum(end_us - start_us) FROM bars WHERE kind = 'child' AND end_us > ? AND end_us <= ?",
                [start_us, until],
            ).fetchone()
        return None if others != 1 or took is None else min(took, end_us - start_us) / 1000

    def call_bounds(self, event_id: str) -> tuple[int, int] | None:
        """Return start and end of the bar of a call, by its first event; microseconds since 1970."""
        with self.query() as base:
            found = base.execute(
                "SELECT start_us, end_us FROM bars WHERE kind IN ('tool', 'model') AND event_id = ? LIMIT 1", [event_id]
            ).fetchone()
        return None if found is None else (found[0], found[1])

    def lanes(self) -> dict[tuple[int, str], int]:
        """Return the sessions and kinds of bars, with the number of lanes of each."""
        with self.query() as base:
            rows = base.execute("SELECT session, kind, max(lane) FROM bars GROUP BY session, kind")
            return {(session, kind): lanes for session, kind, lanes in rows}

    def agent_runs(self, agent_run_ids: Iterable[str]) -> dict[str, RunStart]:
        """Return how agent runs began, by their ids."""
        with self.query() as base:
            found = (
                base.execute(
                    "SELECT id, first, message, coalesce(start_us / 1000, at_ms)"
                    " FROM runs JOIN events ON number = first WHERE id = ?",
                    [each],
                )
                for each in agent_run_ids
            )
            return {agent_run_id: RunStart(*rest) for rows in found for agent_run_id, *rest in rows}

    def sessions_of(self, event_ids: Iterable[str]) -> dict[str, int]:
        """Return the numbers of the sessions of events, by their ids."""
        with self.query() as base:
            found = (
                base.execute("SELECT event_id, session FROM events WHERE event_id = ? LIMIT 1", [each])
                for each in event_ids
            )
            return {event_id: session for rows in found for event_id, session in rows if session is not None}

    def facets(self, text: str, min_ms: float = 0) -> list[Facet]:
        """Return how many events with these words and this least duration have which values of the fields."""
        search = Search(text)
        conditions = ["words MATCH ?"] * bool(search) + ["duration_ms >= ?"] * bool(min_ms)
        values = [search.expression] * bool(search) + [min_ms] * bool(min_ms)
        source = "words JOIN events ON number = words.rowid" if search else "events"
        with self.query() as base:
            # The counts of all events are made with the index: each page of a long run needs them.
            rows = (
                base.execute(facet_query(f"{source} WHERE {' AND '.join(conditions)}"), values)
                if conditions
                else base.execute("SELECT * FROM facets")
            )
            return [Facet(dict(zip(FIELDS, row, strict=False)), row[-2], row[-1]) for row in rows]

    def session_names(self) -> dict[int, str | None]:
        """Return the keys of the sessions by their numbers."""
        with self.query() as base:
            return dict(base.execute("SELECT number, key FROM sessions ORDER BY number"))

    def long_bars(self, start_us: int, end_us: int, min_us: int, max_bars: int) -> list[Bar]:
        """Return the bars that took at least `min_us`; only the longest ones if there are too many."""
        with self.query() as base:
            rows = base.execute(
                "SELECT kind, lane, start_us, end_us, name, failed, event_id, session, message, 1 FROM bars"
                " WHERE end_us >= ? AND start_us <= ? AND end_us - start_us >= ?"
                " ORDER BY end_us - start_us DESC LIMIT ?",
                [start_us, end_us, min_us, max_bars],
            )
            return [Bar._make(row) for row in rows]

    def short_bars(self, start_us: int, end_us: int, min_us: int) -> list[Bar]:
        """Return the shorter bars, joined if they are closer than `min_us`, under the name of one of them."""
        with self.query() as base:
            rows = base.execute(
                "SELECT kind, lane, min(start_us), max(end_us), min(name), max(failed), min(event_id), session,"
                " min(message), count(*)"
                " FROM bars WHERE end_us >= ? AND start_us <= ? AND end_us - start_us < ?"
                " GROUP BY session, kind, lane, (start_us - ?) / ?",
                [start_us, end_us, min_us, start_us, max(min_us, 1)],
            )
            return [Bar._make(row) for row in rows]

    @contextmanager
    def query(self) -> Iterator[sqlite3.Connection]:
        """Open the index for one query. A damaged index is deleted, so that the next request builds it again."""
        try:
            with closing(self._connect()) as base:
                yield base
        except (sqlite3.DatabaseError, msgspec.ValidationError) as error:
            with suppress(OSError):
                self._file.unlink()
            raise BrokenRecordError(
                "The index of this run was damaged and is being rebuilt: reload the page."
            ) from error

    def _connect(self) -> sqlite3.Connection:
        # The file is replaced as a whole; Critiqor never writes an SQLite journal next to it.
        base = sqlite3.connect(f"{self._file.as_uri()}?mode=ro&immutable=1", uri=True)
        # Anyone with write access to the run folder could have created it, so it must not execute anything.
        base.execute("PRAGMA trusted_schema = OFF")
        return base

    def read(self, places: list[tuple[int, int, int]]) -> list[Numbered]:
        """Read events of the evidence, given their numbers, offsets and lengths."""
        try:
            descriptor = os.open(self._document, os.O_RDONLY | os.O_NOFOLLOW)
        except OSError as error:
            raise evidence_error(self._document, error) from error
        try:
            return [Numbered(number, event_at(descriptor, offset, length)) for number, offset, length in places]
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError, TypeError) as error:
            raise evidence_error(self._document, error) from error
        finally:
            os.close(descriptor)


def facet_query(source: str) -> str:
    """Return the query that counts the combinations of values among some events."""
    names = f"{', '.join(FIELDS)}, session"
    counted = f"SELECT {names}, count(*) AS times FROM {source} GROUP BY {names}"
    return f"{counted} ORDER BY times DESC LIMIT {_MAX_FACETS}"


def evidence_mark(document: Path, digest: str) -> str:
    """Return the text by which an event index recognizes its evidence: version, digest, and state of the file."""
    try:
        found = document.stat()
    except OSError as error:
        raise evidence_error(document, error) from error
    return f"{INDEX_VERSION} {digest} {found.st_size} {found.st_mtime_ns}"


def evidence_error(document: Path, error: object) -> BrokenRecordError:
    """Return the error of an event index that cannot read the evidence, without the path that system errors contain."""
    reason = error.strerror if isinstance(error, OSError) else error
    return BrokenRecordError(f"the evidence cannot be read: {reason}", fix=f"critiqor verify {document.parent.name}")
