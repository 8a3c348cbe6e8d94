"""The index of the content of all sealed runs of a folder, `.search.sqlite`: words, and where each event is.

It contains no texts, so everything that is shown comes from the evidence. Only new runs are read when it is updated; it
can be deleted at any time, and is built again if it is damaged or of another version.
"""

from __future__ import annotations

import os
import sqlite3
from bisect import bisect_right
from collections.abc import Collection, Iterator
from contextlib import closing, suppress
from pathlib import Path
from shlex import quote
from typing import NamedTuple

import msgspec

from critiqor.conversation.entries import ConversationBuilder
from critiqor.errors import BrokenRecordError, CritiqorError
from critiqor.model import Event
from critiqor.run.store import Run, RunStore
from critiqor.search.terms import Search, searchable_text
from critiqor.storage import exclusive
from critiqor.storage.session_document import decode_event, event_at, sealed_lines

FILE_NAME = ".search.sqlite"
LOCK_NAME = ".search.lock"
VERSION = "1"
MAX_TEXT = 20_000
"""Maximum number of characters of one event that are indexed."""
MAX_MATCHES = 5000
"""Maximum number of matching events that are looked at, the newest first."""
HITS = 3
"""Number of events that are shown of each run."""
_BATCH = 500
_TABLES = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT);
CREATE TABLE runs (run_id TEXT PRIMARY KEY, source TEXT, first INTEGER, last INTEGER);
CREATE TABLE places (id INTEGER PRIMARY KEY, offset INTEGER, length INTEGER);
CREATE VIRTUAL TABLE words USING fts5 (
    text, content='', columnsize=0, tokenize="unicode61 remove_diacritics 0 tokenchars '_'"
);
"""


class RunHits(NamedTuple):
    """The matches of a search in one run."""

    run_id: str
    matches: int
    """Number of matching events; of all runs together, at most `MAX_MATCHES` are counted."""
    events: list[Event]
    """The first few of them."""


class SearchIndex:
    """The index of one runs folder."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._file = store.paths.search_index_path

    def update(self, max_runs: int | None = None) -> int:
        """Index sealed runs that are new or were changed, at most so many; return how many are still missing."""
        if not self._store.runs_dir.is_dir():
            return 0
        try:
            with exclusive(self._store.runs_dir / LOCK_NAME):
                if self._file.is_symlink() or not self._is_current():
                    self._create()
                return self._add_missing(max_runs)
        except (OSError, sqlite3.Error) as error:
            raise self._problem("written", error) from error

    def _add_missing(self, max_runs: int | None) -> int:
        with closing(self._connect("rw")) as base:
            known = dict(base.execute("SELECT run_id, source FROM runs"))
            sources = {run.id: source for run in self._store.runs() if (source := _source(run)) is not None}
            missing = [run_id for run_id, source in sources.items() if known.get(run_id) != source]
            with base:
                base.executemany(
                    "DELETE FROM runs WHERE run_id = ?", [[run_id] for run_id in known.keys() - sources.keys()]
                )
            for run_id in missing[:max_runs]:
                # One after another: what is done stays if the process is killed.
                with base:
                    _add_run(base, self._store.run(run_id), sources[run_id])
        return len(missing) - len(missing[:max_runs])

    def find(self, text: str, run_ids: Collection[str] | None = None) -> list[RunHits]:
        """Return the runs that contain all words of a search, those that were indexed last first."""
        search = Search(text)
        if not search or not self._file.exists():
            return []
        try:
            with closing(self._connect("ro")) as base:
                matches = base.execute(
                    "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rowid DESC LIMIT ?",
                    [search.expression, MAX_MATCHES],
                ).fetchall()
                runs = base.execute("SELECT first, last, run_id FROM runs ORDER BY first").fetchall()
                firsts = [first for first, _, _ in runs]
                by_run: dict[str, list[int]] = {}
                for [number] in matches:
                    place = bisect_right(firsts, number) - 1
                    # Words of runs that were removed or changed stay until the index is built again.
                    if place >= 0 and number <= runs[place][1] and (run_ids is None or runs[place][2] in run_ids):
                        by_run.setdefault(runs[place][2], []).append(number)
                return [self._hits(base, run_id, numbers) for run_id, numbers in by_run.items()]
        except sqlite3.DatabaseError as error:
            raise self._problem("read", error) from error

    def _hits(self, base: sqlite3.Connection, run_id: str, numbers: list[int]) -> RunHits:
        wanted = sorted(numbers)[:HITS]
        marks = ",".join("?" * len(wanted))
        rows = base.execute(f"SELECT offset, length FROM places WHERE id IN ({marks}) ORDER BY id", wanted).fetchall()
        return RunHits(run_id, len(numbers), list(_events_at(self._store.run(run_id).evidence_path, rows)))

    def _create(self) -> None:
        """Replace the index by an empty one."""
        self._file.unlink(missing_ok=True)
        # Other users must not be able to read it at any moment.
        os.close(os.open(self._file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        with closing(self._connect("rw")) as base, base:
            base.executescript(_TABLES)
            base.execute("INSERT INTO facts VALUES ('version', ?)", [VERSION])

    def _is_current(self) -> bool:
        try:
            with closing(self._connect("ro")) as base:
                facts = dict(base.execute("SELECT name, value FROM facts"))
                return facts.get("version") == VERSION
        except sqlite3.Error as error:
            if _is_locked(error):
                raise
            return False

    def _problem(self, verb: str, error: OSError | sqlite3.Error) -> CritiqorError:
        if _is_locked(error):
            return CritiqorError("another process uses the index of the search", fix="search again in a moment")
        reason = error.strerror if isinstance(error, OSError) else error
        return BrokenRecordError(
            f"the index of the search cannot be {verb}: {reason}", fix=f"rm {quote(str(self._file))}"
        )

    def _connect(self, mode: str) -> sqlite3.Connection:
        base = sqlite3.connect(f"{self._file.absolute().as_uri()}?mode={mode}", uri=True)
        # Anyone with write access to the runs folder could have created it, so it must not execute anything.
        base.execute("PRAGMA trusted_schema = OFF")
        return base


def _is_locked(error: Exception) -> bool:
    """Return whether an index is healthy and only in use."""
    # The low byte is the primary result code. An error of the `sqlite3` module itself has none.
    return (getattr(error, "sqlite_errorcode", 0) & 0xFF) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _source(run: Run) -> str | None:
    """Return what a run was indexed from: the digest of its evidence and the state of the file; None if not sealed."""
    try:
        seal, found = run.head().seal, run.evidence_path.lstat()
    except (CritiqorError, OSError):
        return None
    return None if seal is None else f"{seal.digest} {found.st_size} {found.st_mtime_ns}"


def _add_run(base: sqlite3.Connection, run: Run, source: str) -> None:
    """Index what is part of a conversation of a run. A run whose evidence cannot be read has no words."""
    [highest] = base.execute("SELECT max(id) FROM places").fetchone()
    first = number = (highest or 0) + 1
    places: list[tuple[int, int, int]] = []
    words: list[tuple[int, str]] = []

    def flush() -> None:
        base.executemany("INSERT INTO places VALUES (?, ?, ?)", places)
        base.executemany("INSERT INTO words (rowid, text) VALUES (?, ?)", words)
        places.clear()
        words.clear()

    conversations = ConversationBuilder()
    with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        for offset, line in sealed_lines(run.evidence_path):
            event = decode_event(line)
            if conversations.observe(number, event) is None:
                continue
            places.append((number, offset, len(line)))
            words.append((number, searchable_text(event)[:MAX_TEXT]))
            number += 1
            if len(places) == _BATCH:
                flush()
    flush()
    base.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?)", [run.id, source, first, number - 1])


def _events_at(document: Path, places: list[tuple[int, int]]) -> Iterator[Event]:
    """Yield the events at these places that can still be read."""
    try:
        descriptor = os.open(document, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return
    try:
        for offset, length in places:
            with suppress(ValueError, TypeError, RecursionError, OSError):
                yield event_at(descriptor, offset, length)
    finally:
        os.close(descriptor)
