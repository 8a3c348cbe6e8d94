"""Import of received traces as runs, in a process of its own, so that receiving does not wait for it.

Its first line of input is an `ImportTask`; it ends with its input. Each line of its output is a `TraceResult`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import select
import signal
import sqlite3
import sys
from typing import BinaryIO

import msgspec

from critiqor.errors import CritiqorError
from critiqor.importers.otel.records import Span
from critiqor.importers.otel.traces import read_trace
from critiqor.importers.values import as_text
from critiqor.model.trace import label
from critiqor.receiver.requests import spans_of
from critiqor.receiver.spool import MAX_ATTEMPTS, Spool, StoredPiece, spool_error
from critiqor.run.finalization import finalize
from critiqor.run.importing import find_import, import_trace
from critiqor.run.store import Run, RunStore
from critiqor.storage import exclusive
from critiqor.storage.paths import user_settings_path
from critiqor.storage.run_record import ACTIVE

POLL_SECONDS = 0.5
NICENESS = 10
_IGNORED = (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP)
"""Signals from the keyboard: the receiver ends this process."""


class ImportTask(msgspec.Struct, frozen=True, kw_only=True):
    """Where runs are made, and how."""

    runs_dir: str
    idle: float
    """Seconds without new spans after which a trace without a root is imported."""
    metadata: dict[str, str]
    """Metadata of the runs. Without an `agent_id`, the agent is named after the service that sent the spans."""


class TraceResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one trace."""

    trace_id: str | None
    """Null for a problem of the spool itself, which keeps all traces from being imported."""
    run_id: str | None = None
    """Null if it has no agent, model call or tool call, or could not be imported."""
    spans: int = 0
    events: int = 0
    headline: str | None = None
    trust_score: int | float | None = None
    notes: list[str] = []
    """What could not be read or is unknown."""
    problem: str | None = None
    """Why it could not be imported; null if it could."""
    is_given_up: bool = False
    """Whether the import is not tried again."""


class TraceImporter:
    """Imports the traces of a spool that are complete or idle."""

    def __init__(self, task: ImportTask) -> None:
        self._task = task
        self._store = RunStore(task.runs_dir)
        self.spool_path = self._store.paths.received_path
        self._spool = Spool(self.spool_path)
        self._is_shrunk = True
        self._attempts: dict[str, int] = {}

    def step(self) -> list[TraceResult]:
        """Import some traces that are due. Return what became of them."""
        results = []
        if self._spool.drop_failed():
            self._is_shrunk = False
        for trace in self._spool.due(self._task.idle):
            results.append(self._import(trace))
            self._is_shrunk = False
        if not results and not self._is_shrunk and not self._spool.waiting().traces:
            self._spool.shrink()
            self._is_shrunk = True
        return results

    def _import(self, trace_id: str) -> TraceResult:
        pieces = self._spool.begin(trace_id)
        try:
            run = None
            if self._spool.attempts(trace_id) > 1:
                run, pieces = self._imported_before(pieces)
            result = self._import_pieces(trace_id, pieces, run)
            self._spool.end(trace_id, pieces, result.spans)
        # Spans come from anybody: whatever is wrong with one trace, the others are still imported.
        except Exception as error:
            self._attempts[trace_id] = self._attempts.get(trace_id, 0) + 1
            problem = error.message if isinstance(error, CritiqorError) else f"{type(error).__name__}: {error}"
            is_last = self._attempts[trace_id] >= MAX_ATTEMPTS
            return TraceResult(trace_id=trace_id, problem=label(problem), is_given_up=is_last)
        self._attempts.pop(trace_id, None)
        return result

    def _imported_before(self, pieces: list[StoredPiece]) -> tuple[Run | None, list[StoredPiece]]:
        """Return the run of an attempt that failed later, and the pieces in it; others may have come since then."""
        digests = _digests(pieces)
        found = find_import(self._store, digests)
        return (None, pieces) if found is None else (found[0], pieces[: digests.index(found[1]) + 1])

    def _import_pieces(self, trace_id: str, pieces: list[StoredPiece], run: Run | None) -> TraceResult:
        """Import pieces, or complete the run that was made of them."""
        spans, unread = _decode(pieces)
        trace = read_trace(trace_id, spans, secrets.token_bytes(32))
        if unread:
            note = f"requests whose spans could not be read: {unread}"
            trace = msgspec.structs.replace(
                trace, notes=[note, *trace.notes], not_understood=trace.not_understood + unread
            )
        if not trace.events:
            return TraceResult(trace_id=trace_id, spans=len(spans), notes=trace.notes)
        if run is None:
            metadata = {"agent_id": _service(spans), **self._task.metadata}
            run = import_trace(trace, self._store, metadata, _digests(pieces)[-1])
        elif run.head().status in ACTIVE:
            finalize(run, self._store)
        if user_settings_path().is_file():
            from critiqor.fleet.store.after_seal import expect_push

            expect_push(run)  # the next critiqor command pushes it: a process for each trace would be too much
        head = run.head()
        return TraceResult(
            trace_id=trace_id,
            run_id=run.id,
            spans=len(spans),
            events=len(trace.events),
            headline=head.headline,
            trust_score=head.trust_score,
            notes=trace.notes,
        )


def run_importer() -> None:
    """Import until the input ends."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    source = sys.stdin.buffer
    task = msgspec.json.decode(source.readline(), type=ImportTask)
    with exclusive(RunStore(task.runs_dir).paths.received_lock_path):
        import_all(TraceImporter(task), source, sys.stdout.buffer)


def import_all(importer: TraceImporter, source: BinaryIO, output: BinaryIO) -> None:
    """Import until the input ends, and write what became of each trace."""
    while True:
        try:
            results = importer.step()
        except sqlite3.OperationalError:
            results = []  # the spool is locked or the disk is full: the next step tries again
        except sqlite3.DatabaseError as error:
            # Nothing more can be imported, and a process that is started again would only find the same.
            _write([TraceResult(trace_id=None, problem=str(spool_error(importer.spool_path, error)))], output)
            select.select([source], [], [])
            return
        _write(results, output)
        if select.select([source], [], [], 0 if results else POLL_SECONDS)[0]:
            return


def _write(results: list[TraceResult], output: BinaryIO) -> None:
    for result in results:
        output.write(msgspec.json.encode(result) + b"\n")
    output.flush()


def _decode(pieces: list[StoredPiece]) -> tuple[list[Span], int]:
    """Return the spans of all pieces, and the number of pieces that cannot be read."""
    spans: list[Span] = []
    unread = 0
    for piece in pieces:
        try:
            spans += spans_of(piece.data, piece.form)
        except (ValueError, RecursionError):
            unread += 1
    return spans, unread


def _digests(pieces: list[StoredPiece]) -> list[str]:
    """Return the digest of the first piece, of the first two, and so on."""
    digests = []
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(hashlib.sha256(piece.data).digest())
        digests.append(digest.hexdigest())
    return digests


def _service(spans: list[Span]) -> str:
    """Return the name of the service that sent a trace, as the agent's name."""
    names = (as_text(span.resource.get("service.name")) for span in spans)
    return label(next((name for name in names if name), "")) or "unknown_service"
