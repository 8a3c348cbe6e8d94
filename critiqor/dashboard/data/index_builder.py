"""Builds the index of a sealed run: its events, their words, its conversations, and the bars of the time chart."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import msgspec
import psutil

from critiqor.conversation.entries import ConversationBuilder, Entry
from critiqor.dashboard.data.event_index import FIELDS, EventIndex, evidence_error, evidence_mark, facet_query
from critiqor.dashboard.data.time_chart import AgentRuns, agent_run_bounds, chart_bars
from critiqor.exporters import gather_trace
from critiqor.model import ms_from_iso
from critiqor.model.trace import MAX_MS, label
from critiqor.run.store import Run
from critiqor.run.view import RunView
from critiqor.search.terms import searchable_text
from critiqor.storage.session_document import decode_event, sealed_lines

_BATCH = 500
_MAX_NAME = 200
"""Maximum length in characters of a name that is offered as a filter."""
_MAX_NAMES = 200
_MAX_RUNS = 100_000
"""Maximum number of agent runs whose beginnings and messages are known."""
_TABLES = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT);
CREATE TABLE events (
    number INTEGER PRIMARY KEY, event_id TEXT, event_type TEXT, source_layer TEXT, tool_name TEXT, status TEXT,
    at_ms INTEGER, offset INTEGER, length INTEGER, session INTEGER, duration_ms REAL
);
CREATE TABLE sessions (
    number INTEGER PRIMARY KEY, key TEXT, parent INTEGER, entries INTEGER, messages INTEGER, tool_calls INTEGER,
    failures INTEGER, events INTEGER, started_at TEXT, ended_at TEXT, request INTEGER, answer INTEGER
);
CREATE TABLE entries (
    session INTEGER, place INTEGER, kind TEXT, number INTEGER, end INTEGER, model INTEGER, is_failed INTEGER,
    is_inner INTEGER, child TEXT, call TEXT, PRIMARY KEY (session, place)
) WITHOUT ROWID;
CREATE VIRTUAL TABLE words USING fts5 (
    text, content='', columnsize=0, tokenize="unicode61 remove_diacritics 0 tokenchars '_'"
);
CREATE TABLE names (field TEXT, name TEXT, times INTEGER);
CREATE TABLE bars (
    kind TEXT, lane INTEGER, start_us INTEGER, end_us INTEGER, name TEXT, failed INTEGER, event_id TEXT,
    session INTEGER, message INTEGER
);
CREATE TABLE runs (id TEXT PRIMARY KEY, first INTEGER, message INTEGER, start_us INTEGER) WITHOUT ROWID;
"""


def build_index(run: Run, digest: str, file: Path) -> EventIndex:
    """Build the index of a sealed run. The file gets its final name when it is complete."""
    document = run.evidence_path
    origin = evidence_mark(document, digest)
    _remove_leftovers(file)
    unfinished = file.with_name(f"{file.name}.{os.getpid()}.tmp")
    unfinished.unlink(missing_ok=True)
    # Other users must not be able to read it at any moment.
    os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        with closing(sqlite3.connect(unfinished, isolation_level=None)) as base:
            # The index is built again if anything goes wrong, so nothing needs to survive a crash.
            base.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -8000;")
            base.executescript(_TABLES)
            base.execute("BEGIN")
            _insert_bars(base, run, _insert_events(base, document))
            for field in FIELDS:
                base.execute(
                    f"INSERT INTO names SELECT '{field}', {field}, count(*) AS times FROM events"
                    f" WHERE {field} IS NOT NULL AND length({field}) <= ? GROUP BY {field} ORDER BY times DESC LIMIT ?",
                    [_MAX_NAME, _MAX_NAMES],
                )
            base.execute(f"CREATE TABLE facets AS {facet_query('events')}")
            base.execute("CREATE INDEX events_by_id ON events (event_id)")
            base.execute("CREATE INDEX entries_by_event ON entries (number)")
            base.execute("CREATE INDEX entries_by_end ON entries (end)")
            base.execute("CREATE INDEX sessions_by_key ON sessions (key)")
            base.execute("CREATE INDEX bars_by_kind ON bars (kind, start_us)")
            base.execute("INSERT INTO facts VALUES ('made_of', ?)", [origin])
            base.execute("COMMIT")
        unfinished.replace(file)
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
    return EventIndex(file, document)


def _remove_leftovers(file: Path) -> None:
    """Remove files of processes that ended while they built this index."""
    at_work = set(map(str, psutil.pids()))
    for left in file.parent.glob(f"{file.name}.*.tmp"):
        if left.suffixes[-2].removeprefix(".") not in at_work:
            with suppress(OSError):
                left.unlink()


def _insert_events(base: sqlite3.Connection, document: Path) -> AgentRuns:
    rows: list[tuple[Any, ...]] = []
    words: list[tuple[int, str]] = []

    entries: dict[tuple[int, int], Entry] = {}
    firsts: dict[str, int] = {}
    messages: dict[str, int] = {}
    conversations = ConversationBuilder()
    first_ms: int | None = None

    def flush() -> None:
        base.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        base.executemany("INSERT INTO words (rowid, text) VALUES (?, ?)", words)
        # The result of a call can come much later than the call: it replaces the entry.
        changed = map(msgspec.structs.astuple, entries.values())
        base.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", changed)
        rows.clear()
        words.clear()
        entries.clear()

    for number, (offset, line) in enumerate(_lines(document), 1):
        try:
            event = decode_event(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise evidence_error(document, error) from error
        at = ms_from_iso(event.timestamp)
        named = (event.event_id, event.event_type, event.source_layer, event.tool_name, event.status)
        if event.agent_run_id and len(firsts) < _MAX_RUNS:
            firsts.setdefault(event.agent_run_id, number)
        entry = conversations.observe(number, event)
        if entry is not None:
            entries[entry.session, entry.place] = entry
            if entry.kind == "user" and event.agent_run_id in firsts:
                messages.setdefault(event.agent_run_id, number)
        session = conversations.sessions.get(event.session_key) if event.session_key is not None else None
        place = (offset, len(line), None if session is None else session.number)
        rows.append((number, *named, at, *place, _duration(event.duration_ms)))
        if at is not None and entry is not None:
            first_ms = at if first_ms is None else min(first_ms, at)
        words.append((number, searchable_text(event)))
        if len(rows) == _BATCH:
            flush()
    flush()
    if first_ms is not None:
        base.execute("INSERT INTO facts VALUES ('first_ms', ?)", [str(first_ms)])
    sessions = map(msgspec.structs.astuple, conversations.sessions.values())
    base.executemany("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", sessions)
    runs = ((agent_run_id, first, messages.get(agent_run_id)) for agent_run_id, first in firsts.items())
    base.executemany("INSERT INTO runs VALUES (?, ?, ?, NULL)", runs)
    tracks = {
        f"session {label(session.key)}": session.number
        for session in conversations.sessions.values()
        if session.key is not None
    }
    return AgentRuns(tracks, {label(agent_run_id): number for agent_run_id, number in messages.items()})


def _insert_bars(base: sqlite3.Connection, run: Run, agent_runs: AgentRuns) -> None:
    trace = gather_trace(RunView(run))
    bars = chart_bars(trace, agent_runs)
    # The last field is the number of joined bars, and none are joined here.
    base.executemany("INSERT INTO bars VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (bar[:-1] for bar in bars))
    starts = ((bounds.start_us, name) for name, bounds in agent_run_bounds(trace).items())
    base.executemany("UPDATE runs SET start_us = ? WHERE id = ?", starts)


def _duration(milliseconds: float | None) -> float | None:
    return float(milliseconds) if milliseconds is not None and 0 <= milliseconds <= MAX_MS else None


def _lines(document: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the events of a sealed session.json as bytes, with their offsets."""
    try:
        yield from sealed_lines(document)
    except OSError as error:
        raise evidence_error(document, error) from error
