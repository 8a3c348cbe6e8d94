"""session.json while the run goes on: the journal as one document, replaced whole, soon after something was recorded.

It is made on a thread of its own, so that no turn waits for it. Making it costs more the longer the run is, so the
pause grows with the cost and its share of the process stays below a hundredth. The journal has it all: whatever goes
wrong here is made good by the next attempt, by the monitor, or by finalize.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time

from critiqor.storage import SessionPaths
from critiqor.storage.atomic import FILE_MODE
from critiqor.storage.lock import SEALED
from critiqor.storage.session_document import SessionDocumentWriter, copy_journal

SOONEST_SECONDS = 0.25
PAUSE_PER_SECOND_OF_WORK = 100.0
PATIENCE_SECONDS = 0.3
"""How long the last one waits for another process that is just replacing the document."""


class LiveView:
    """Keeps session.json of one run up with its journal."""

    def __init__(self, paths: SessionPaths, run_id: str) -> None:
        self._run_id = run_id
        self._journal = paths.journal_path(run_id)
        self._document = paths.evidence_summary_path(run_id)
        self._lock_path = paths.session_lock_path(run_id)
        self._temporary = self._document.with_name(f"{self._document.name}.{os.getpid()}-{id(self):x}.tmp")
        self._timer: threading.Timer | None = None
        self._working = threading.Lock()
        self._pause = SOONEST_SECONDS

    def follow(self) -> None:
        """Something was recorded: let the document follow soon."""
        if self._timer is None:
            self._timer = threading.Timer(self._pause, self._catch_up)
            self._timer.daemon = True
            self._timer.start()

    def finish(self) -> None:
        """Bring the document up to the journal at once; for the end of the process."""
        if self._timer is not None:
            self._timer.cancel()
        with self._working, contextlib.suppress(OSError):
            self._rewrite(PATIENCE_SECONDS)

    def _catch_up(self) -> None:
        self._timer = None  # what is recorded from here on asks for the next one
        with self._working:
            began = time.thread_time()
            with contextlib.suppress(OSError):
                self._rewrite(0.0)
            self._pause = max(SOONEST_SECONDS, (time.thread_time() - began) * PAUSE_PER_SECOND_OF_WORK)

    def _rewrite(self, patience: float) -> None:
        if self._is_sealed():
            return
        try:
            descriptor = os.open(self._temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
            with os.fdopen(descriptor, "wb", buffering=1 << 17) as file:
                copy_journal(self._journal, SessionDocumentWriter(file, self._run_id))
            self._replace(patience)
        finally:
            self._temporary.unlink(missing_ok=True)

    def _replace(self, patience: float) -> None:
        """Put the new document into its place, holding the lock that whoever seals takes for good."""
        deadline = time.monotonic() + patience
        while True:
            try:
                os.close(os.open(self._lock_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE))
                break
            except FileExistsError:
                if self._is_sealed() or time.monotonic() >= deadline:
                    return
                time.sleep(0.005)
        try:
            self._temporary.replace(self._document)
        finally:
            self._lock_path.unlink(missing_ok=True)

    def _is_sealed(self) -> bool:
        with contextlib.suppress(OSError):
            return self._lock_path.read_bytes() == SEALED
        return False
