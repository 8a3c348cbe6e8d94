"""The spool of a receiver, `runs/.received.sqlite`: spans on disk until their trace is complete and imported.

A request is answered after its spans are here, so that a receiver that is killed loses none of them. The receiver
writes, and the process that imports reads and deletes; SQLite lets both do so at the same time.
"""

from __future__ import annotations

import os
import shlex
import sqlite3
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from critiqor.errors import CritiqorError
from critiqor.receiver.requests import Piece
from critiqor.storage.atomic import FILE_MODE
from critiqor.storage.paths import FOLDER_MODE

MAX_BYTES = 2 << 30
"""Maximum size of all spans that wait; further requests are refused until some are imported."""
MAX_TRACE_BYTES = 32 << 20
"""Size from which a trace is imported although it is not complete: a run must fit into memory."""
COMPLETE_SECONDS = 5.0
"""How long a trace with a root waits for spans of other processes."""
IDLE_SECONDS = 60.0
"""How long a trace without a root waits for more spans."""
OWN_IDLE_SECONDS = 3600.0
"""The same for a run that Critiqor streams: its agent may do nothing for a long time."""
MAX_ATTEMPTS = 3
"""How often the import of a trace is tried, if it fails."""
KEEP_DAYS = 7
KEEP_SECONDS = KEEP_DAYS * 86_400.0
"""How long a trace whose import is not tried again is kept, but not longer: its spans are not redacted."""
_BUSY_SECONDS = 30.0
_VERSION = 1
# 1: first version.
_TABLES = f"""
PRAGMA auto_vacuum = INCREMENTAL;
PRAGMA journal_mode = WAL;
BEGIN;
CREATE TABLE IF NOT EXISTS pieces (id INTEGER PRIMARY KEY, trace TEXT, form TEXT, data BLOB);
CREATE INDEX IF NOT EXISTS pieces_of_trace ON pieces (trace);
CREATE TABLE IF NOT EXISTS traces (
    trace TEXT PRIMARY KEY, bytes INTEGER, spans INTEGER, seen REAL, has_root INTEGER, is_own INTEGER,
    attempts INTEGER DEFAULT 0
);
PRAGMA user_version = {_VERSION};
COMMIT;
"""
_ADD = """
INSERT INTO traces (trace, bytes, spans, seen, has_root, is_own) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (trace) DO UPDATE SET bytes = bytes + excluded.bytes, spans = spans + excluded.spans, seen = excluded.seen,
has_root = max(has_root, excluded.has_root)
"""
# A trace that is not tried again is kept from its last attempt on, however long it has waited.
_BEGIN = """
UPDATE traces SET attempts = attempts + 1, seen = CASE WHEN attempts + 1 >= ? THEN ? ELSE seen END WHERE trace = ?
"""
_DUE = """
SELECT trace FROM traces WHERE attempts < :attempts AND (
    (has_root AND seen <= :complete) OR seen <= CASE WHEN is_own THEN :own ELSE :idle END OR bytes >= :most
) ORDER BY seen LIMIT :count
"""


class Waiting(NamedTuple):
    """What is in the spool."""

    traces: int
    spans: int
    bytes: int
    failed: int
    """Traces whose import failed too often."""


class StoredPiece(NamedTuple):
    """The spans of one trace in one request, as they came."""

    id: int
    form: str
    data: bytes


class Spool:
    """The spool of one runs folder."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, FILE_MODE))
        self._base = sqlite3.connect(path, timeout=_BUSY_SECONDS, check_same_thread=False, isolation_level=None)
        self._base.executescript(_TABLES)
        self._base.execute("PRAGMA synchronous = NORMAL")

    def close(self) -> None:
        """Close the file."""
        self._base.close()

    def add(self, pieces: Iterable[Piece], now: float | None = None) -> None:
        """Add the pieces of a request. When this returns, they survive the end of this process."""
        seen = time.time() if now is None else now
        known = [(piece, len(piece.data)) for piece in pieces]
        with self._transaction():
            self._base.executemany(
                _ADD,
                [(one.trace_id, size, one.spans, seen, one.has_root, one.is_own) for one, size in known],
            )
            self._base.executemany(
                "INSERT INTO pieces (trace, form, data) VALUES (?, ?, ?)",
                [(one.trace_id, one.form, one.data) for one, _ in known],
            )

    def waiting(self) -> Waiting:
        """Return how much waits."""
        sums = "count(*), coalesce(sum(spans), 0), coalesce(sum(bytes), 0), coalesce(sum(attempts >= ?), 0)"
        return Waiting(*self._base.execute(f"SELECT {sums} FROM traces", (MAX_ATTEMPTS,)).fetchone())

    def due(self, idle: float = IDLE_SECONDS, *, now: float | None = None, count: int = 20) -> list[str]:
        """Return the ids of traces that are complete or idle, the oldest first."""
        now = time.time() if now is None else now
        limits = {
            "complete": now - min(COMPLETE_SECONDS, idle),
            "idle": now - idle,
            "own": now - max(OWN_IDLE_SECONDS, idle),
            "most": MAX_TRACE_BYTES,
            "attempts": MAX_ATTEMPTS,
            "count": count,
        }
        return [trace for (trace,) in self._base.execute(_DUE, limits)]

    def begin(self, trace: str, now: float | None = None) -> list[StoredPiece]:
        """Note an attempt to import a trace. Return its pieces, up to the maximum size of a trace."""
        self._base.execute(_BEGIN, (MAX_ATTEMPTS, time.time() if now is None else now, trace))
        found: list[StoredPiece] = []
        size = 0
        for row in self._base.execute("SELECT id, form, data FROM pieces WHERE trace = ? ORDER BY id", (trace,)):
            piece = StoredPiece(*row)
            size += len(piece.data)
            if found and size > MAX_TRACE_BYTES:
                break
            found.append(piece)
        return found

    def attempts(self, trace: str) -> int:
        """Return how often the import of a trace was begun and not ended."""
        found = self._base.execute("SELECT attempts FROM traces WHERE trace = ?", (trace,)).fetchone()
        return 0 if found is None else int(found[0])

    def end(self, trace: str, pieces: list[StoredPiece], spans: int) -> None:
        """Delete pieces that were imported, with that many spans, and the trace if there are no others."""
        size = sum(len(piece.data) for piece in pieces)
        with self._transaction():
            self._base.executemany("DELETE FROM pieces WHERE id = ?", [(piece.id,) for piece in pieces])
            change = "UPDATE traces SET bytes = bytes - ?, spans = max(0, spans - ?), attempts = 0 WHERE trace = ?"
            self._base.execute(change, (size, spans, trace))
            self._base.execute("DELETE FROM traces WHERE trace = ? AND bytes <= 0", (trace,))

    def drop_failed(self, now: float | None = None) -> bool:
        """Delete the traces whose import is not tried again, after some days. Return whether there were any."""
        before = (time.time() if now is None else now) - KEEP_SECONDS
        old = "SELECT trace FROM traces WHERE attempts >= ? AND seen <= ?"
        traces = self._base.execute(old, (MAX_ATTEMPTS, before)).fetchall()
        if traces:
            with self._transaction():
                self._base.executemany("DELETE FROM pieces WHERE trace = ?", traces)
                self._base.executemany("DELETE FROM traces WHERE trace = ?", traces)
        return bool(traces)

    def shrink(self) -> None:
        """Give the space of deleted spans back to the file system."""
        # As a script, because `execute` frees only the first page.
        self._base.executescript("PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(TRUNCATE);")

    def _transaction(self) -> _Transaction:
        return _Transaction(self._base)


def spool_error(path: Path, error: sqlite3.Error) -> CritiqorError:
    """Return why a spool cannot be used, and what to do."""
    message = f"the received spans in {path} cannot be used: {error}"
    # The extended codes have the primary one in their lowest byte. A file with other tables is a plain SQLITE_ERROR.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
    if code in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        name = shlex.quote(str(path))
        return CritiqorError(message, fix=f"mv {name} {name}.damaged && critiqor receive")
    return CritiqorError(
        message, fix="end other programs that use it, or free space on its disk; then critiqor receive"
    )


class _Transaction:
    def __init__(self, base: sqlite3.Connection) -> None:
        self._base = base

    def __enter__(self) -> None:
        self._base.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._base.execute("COMMIT" if kind is None else "ROLLBACK")
