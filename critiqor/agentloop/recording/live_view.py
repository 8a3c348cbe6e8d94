"""Live session.json: rewritten from the journal by a background thread while a run is recorded.

Writing takes longer the longer the run is, so the pause between two writes grows with the time they take, and they take
less than one percent of the process's time. The journal is complete: any failure here is repaired by the next write, by
the monitor, or by finalize.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time

from critiqor.storage import SessionPaths
from critiqor.storage.atomic import FILE_MODE
from critiqor.storage.lock import is_sealed
from critiqor.storage.session_document import SessionDocumentWriter, copy_journal

MIN_PAUSE_SECONDS = 0.25
PAUSE_PER_SECOND_OF_WORK = 100.0
LOCK_WAIT_SECONDS = 0.3
"""How long the last write waits for another process that is replacing the document."""


class LiveView:
    """Keeps the session.json of a recording up to date with its journal."""

    def __init__(self, paths: SessionPaths, run_id: str) -> None:
        self._run_id = run_id
        self._journal = paths.journal_path(run_id)
        self._document = paths.evidence_summary_path(run_id)
        self._lock_path = paths.session_lock_path(run_id)
        self._temporary = self._document.with_name(f"{self._document.name}.{os.getpid()}-{id(self):x}.tmp")
        self._timer: threading.Timer | None = None
        self._working = threading.Lock()
        self._pause = MIN_PAUSE_SECONDS

    def schedule(self) -> None:
        """Schedule a write, because something was recorded."""
        if self._timer is None:
            self._timer = threading.Timer(self._pause, self._write_in_background)
            self._timer.daemon = True
            self._timer.start()

    def finish(self) -> None:
        """Write the document at once, at the end of the process."""
        if self._timer is not None:
            self._timer.cancel()
        with self._working, contextlib.suppress(OSError):
            self._rewrite(LOCK_WAIT_SECONDS)

    def _write_in_background(self) -> None:
        self._timer = None  # records from here on schedule the next write
        with self._working:
            began = time.thread_time()
            with contextlib.suppress(OSError):
                self._rewrite(0.0)
            self._pause = max(MIN_PAUSE_SECONDS, (time.thread_time() - began) * PAUSE_PER_SECOND_OF_WORK)

    def _rewrite(self, wait_seconds: float) -> None:
        if is_sealed(self._lock_path):
            return
        try:
            descriptor = os.open(self._temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
            with os.fdopen(descriptor, "wb", buffering=1 << 17) as file:
                copy_journal(self._journal, SessionDocumentWriter(file, self._run_id))
            self._replace(wait_seconds)
        finally:
            self._temporary.unlink(missing_ok=True)

    def _replace(self, wait_seconds: float) -> None:
        """Replace the document while holding the lock that sealing also takes."""
        deadline = time.monotonic() + wait_seconds
        while True:
            try:
                os.close(os.open(self._lock_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE))
                break
            except FileExistsError:
                if is_sealed(self._lock_path) or time.monotonic() >= deadline:
                    return
                time.sleep(0.005)
        try:
            self._temporary.replace(self._document)
        finally:
            self._lock_path.unlink(missing_ok=True)
