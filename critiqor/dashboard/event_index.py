"""The index of one sealed run: where each event stands in session.json, its words, and its slices of time.

It holds no event, only places, so that what is shown always comes from the evidence. It can be made again at any time,
and is made again when the seal or the file is another one.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from critiqor.dashboard.search_terms import Search, text_of
from critiqor.dashboard.time_chart import Bar, bars_of
from critiqor.errors import BrokenRecordError
from critiqor.exports import gather_trace
from critiqor.model import Event, ms_from_iso
from critiqor.storage import SessionPaths
from critiqor.storage.journal import LONGEST_LINE

INDEX_VERSION = "1"
# 1: first form.
FIELDS = ("event_type", "source_layer", "tool_name", "status")
"""What events can be filtered by."""
_BATCH = 500
_LONGEST_NAME = 200
"""Characters of a name that is offered as a filter."""
_MOST_NAMES = 200
_TABLES = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT);
CREATE TABLE events (
    number INTEGER PRIMARY KEY, event_id TEXT, event_type TEXT, source_layer TEXT, tool_name TEXT, status TEXT,
    at_ms INTEGER, offset INTEGER, length INTEGER
);
CREATE VIRTUAL TABLE words USING fts5 (
    text, content='', columnsize=0, tokenize="unicode61 remove_diacritics 0 tokenchars '_'"
);
CREATE TABLE names (field TEXT, name TEXT, times INTEGER);
CREATE TABLE bars (
    kind TEXT, lane INTEGER, start_us INTEGER, end_us INTEGER, name TEXT, failed INTEGER, event_id TEXT
);
"""

_decode_event = msgspec.json.Decoder(Event).decode


class EventFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which events are wanted; an empty text wants all."""

    event_type: str = ""
    source_layer: str = ""
    tool_name: str = ""
    status: str = ""
    text: str = ""

    @property
    def names(self) -> dict[str, str]:
        """The wanted names by field, those that want something."""
        return {field: value for field in FIELDS if (value := getattr(self, field))}

    def wants(self, event: Event) -> bool:
        """The same without an index."""
        if any(getattr(event, field) != value for field, value in self.names.items()):
            return False
        search = Search(self.text)
        return not search or search.finds(event)


class Numbered(NamedTuple):
    """An event and its place among all of the run, from 1."""

    number: int
    event: Event


class Found(NamedTuple):
    """One page of events."""

    events: list[Numbered]
    total: int
    """How many there are on all pages."""


class EventIndex:
    """A finished index. Each question opens the file anew, so that any thread may ask."""

    def __init__(self, file: Path, document: Path) -> None:
        self._file = file
        self._document = document

    def is_of(self, digest: str) -> bool:
        """Whether it was made of this sealed evidence, and of the file as it is now."""
        try:
            with closing(self._connect()) as base:
                if base.execute("SELECT count(*) FROM sqlite_master WHERE type IN ('view', 'trigger')").fetchone() != (
                    0,
                ):
                    return False
                facts = dict(base.execute("SELECT name, value FROM facts"))
        except sqlite3.Error:
            return False
        return facts.get("made_of") == _made_of(self._document, digest)

    def find(self, wanted: EventFilter, offset: int, limit: int) -> Found:
        """The events that are wanted, from `offset` on."""
        search = Search(wanted.text)
        conditions = ["words MATCH ?"] if search else []
        conditions += [f"{field} = ?" for field in wanted.names]
        values: list[Any] = [search.expression, *wanted.names.values()] if search else list(wanted.names.values())
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        # Matches come in the order of their numbers, so that the first page needs no sorting.
        source, order = ("words JOIN events ON number = words.rowid", "words.rowid") if search else ("events", "number")
        alone = "words" if search and not wanted.names else source
        with closing(self._connect()) as base:
            [total] = base.execute(f"SELECT count(*) FROM {alone}{where}", values).fetchone()
            rows = base.execute(
                f"SELECT number, offset, length FROM {source}{where} ORDER BY {order} LIMIT ? OFFSET ?",
                [*values, limit, offset],
            ).fetchall()
        return Found(self._read(rows), total)

    def event(self, event_id: str) -> Numbered | None:
        """One event by its id."""
        with closing(self._connect()) as base:
            rows = base.execute(
                "SELECT number, offset, length FROM events WHERE event_id = ? LIMIT 1", [event_id]
            ).fetchall()
        return next(iter(self._read(rows)), None)

    def moment(self, event_id: str) -> int | None:
        """When an event was, in microseconds since 1970."""
        with closing(self._connect()) as base:
            found = base.execute("SELECT at_ms FROM events WHERE event_id = ? LIMIT 1", [event_id]).fetchone()
        return None if found is None or found[0] is None else int(found[0]) * 1000

    def names(self, field: str) -> dict[str, int]:
        """The names that a field has, the most frequent first, with how often."""
        with closing(self._connect()) as base:
            rows = base.execute("SELECT name, times FROM names WHERE field = ? ORDER BY times DESC, name", [field])
            return dict(rows.fetchall())

    def extent(self) -> tuple[int, int] | None:
        """From when to when something took time; microseconds since 1970."""
        with closing(self._connect()) as base:
            first, last = base.execute("SELECT min(start_us), max(end_us) FROM bars").fetchone()
        return None if first is None else (first, last)

    def lanes(self) -> list[tuple[str, int]]:
        """The kinds of bars, and how many lanes each needs."""
        with closing(self._connect()) as base:
            return base.execute("SELECT kind, max(lane) FROM bars GROUP BY kind").fetchall()

    def long_bars(self, start_us: int, end_us: int, least_us: int, most: int) -> list[Bar]:
        """What took at least so long, the longest ones where there are too many."""
        with closing(self._connect()) as base:
            rows = base.execute(
                "SELECT kind, lane, start_us, end_us, name, failed, event_id FROM bars"
                " WHERE end_us >= ? AND start_us <= ? AND end_us - start_us >= ?"
                " ORDER BY end_us - start_us DESC LIMIT ?",
                [start_us, end_us, least_us, most],
            )
            return [Bar._make(row) for row in rows]

    def short_bars(self, start_us: int, end_us: int, least_us: int) -> list[Bar]:
        """What took less, joined where it stands closer than that; the name says how many there are."""
        with closing(self._connect()) as base:
            rows = base.execute(
                "SELECT kind, lane, min(start_us), max(end_us), min(name), max(failed), min(event_id), count(*)"
                " FROM bars WHERE end_us >= ? AND start_us <= ? AND end_us - start_us < ?"
                " GROUP BY kind, lane, (start_us - ?) / ?",
                [start_us, end_us, least_us, start_us, max(least_us, 1)],
            )
            return [_joined(Bar._make(bar), times) for *bar, times in rows]

    def _connect(self) -> sqlite3.Connection:
        # The file is replaced whole, and what lies beside it, such as a journal, is none of ours.
        base = sqlite3.connect(f"{self._file.as_uri()}?mode=ro&immutable=1", uri=True)
        # Whoever can write into the folder of a run could have made it: it may not run anything.
        base.execute("PRAGMA trusted_schema = OFF")
        return base

    def _read(self, places: list[tuple[int, int, int]]) -> list[Numbered]:
        try:
            descriptor = os.open(self._document, os.O_RDONLY | os.O_NOFOLLOW)
        except OSError as error:
            raise _broken(self._document, error) from error
        try:
            return [Numbered(number, _event_at(descriptor, offset, length)) for number, offset, length in places]
        except (msgspec.DecodeError, UnicodeDecodeError, ValueError, TypeError) as error:
            raise _broken(self._document, error) from error
        finally:
            os.close(descriptor)


def _event_at(descriptor: int, offset: int, length: int) -> Event:
    """One line of the sealed evidence, and nothing less: part of one could be made to look like another event."""
    if not 0 < length <= 2 * LONGEST_LINE or offset < 1:
        raise ValueError("the index names a place that cannot be")
    line = os.pread(descriptor, length + 2, offset - 1)
    if line[:1] != b"\n" or line[length + 1 :] not in (b",", b"\n"):
        raise ValueError("the index does not name a whole event")
    return _decode_event(line[1 : length + 1])


def _joined(bar: Bar, times: int) -> Bar:
    return bar if times == 1 else bar._replace(name=f"{times} short ones, among them {bar.name}")


def build_index(paths: SessionPaths, run_id: str, digest: str, file: Path) -> EventIndex:
    """Make the index of a sealed run; the file takes its place when everything is in it."""
    document = paths.evidence_summary_path(run_id)
    made_of = _made_of(document, digest)
    unfinished = file.with_name(f"{file.name}.{os.getpid()}.tmp")
    unfinished.unlink(missing_ok=True)
    # Others must not read it at any moment.
    os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        with closing(sqlite3.connect(unfinished, isolation_level=None)) as base:
            # It is made again if anything goes wrong, so that nothing needs to survive a crash.
            base.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -8000;")
            base.executescript(_TABLES)
            base.execute("BEGIN")
            _enter_events(base, document)
            _enter_bars(base, paths, run_id)
            for field in FIELDS:
                base.execute(
                    f"INSERT INTO names SELECT '{field}', {field}, count(*) AS times FROM events"
                    f" WHERE {field} IS NOT NULL AND length({field}) <= ? GROUP BY {field} ORDER BY times DESC LIMIT ?",
                    [_LONGEST_NAME, _MOST_NAMES],
                )
            base.execute("CREATE INDEX events_by_id ON events (event_id)")
            base.execute("INSERT INTO facts VALUES ('made_of', ?)", [made_of])
            base.execute("COMMIT")
        unfinished.replace(file)
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
    return EventIndex(file, document)


def _enter_events(base: sqlite3.Connection, document: Path) -> None:
    rows: list[tuple[Any, ...]] = []
    words: list[tuple[int, str]] = []

    def flush() -> None:
        base.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        base.executemany("INSERT INTO words (rowid, text) VALUES (?, ?)", words)
        rows.clear()
        words.clear()

    for number, (offset, line) in enumerate(_lines(document), 1):
        try:
            event = _decode_event(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _broken(document, error) from error
        at = ms_from_iso(event.timestamp)
        named = (event.event_id, event.event_type, event.source_layer, event.tool_name, event.status)
        rows.append((number, *named, at, offset, len(line)))
        words.append((number, text_of(event)))
        if len(rows) == _BATCH:
            flush()
    flush()


def _enter_bars(base: sqlite3.Connection, paths: SessionPaths, run_id: str) -> None:
    bars = bars_of(gather_trace(run_id, paths.runs_dir, whole=True))
    base.executemany("INSERT INTO bars VALUES (?, ?, ?, ?, ?, ?, ?)", bars)


def _lines(document: Path) -> Iterator[tuple[int, bytes]]:
    """The events of a sealed session.json as they stand there, with their places."""
    try:
        file = document.open("rb", buffering=1 << 18)
    except OSError as error:
        raise _broken(document, error) from error
    with file:
        offset = len(file.readline())
        for line in file:
            if line == b"],\n":
                return
            yield offset, line.rstrip(b",\n")
            offset += len(line)


def _made_of(document: Path, digest: str) -> str:
    try:
        found = document.stat()
    except OSError as error:
        raise _broken(document, error) from error
    return f"{INDEX_VERSION} {digest} {found.st_size} {found.st_mtime_ns}"


def _broken(document: Path, error: object) -> BrokenRecordError:
    # Without the path that the error of a system names.
    reason = error.strerror if isinstance(error, OSError) else error
    message = f"the evidence cannot be read: {reason}"
    return BrokenRecordError(message, fix=f"critiqor verify {document.parent.name}")
