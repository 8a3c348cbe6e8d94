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

import msgspec

from critiqor.model import EVIDENCE_SCHEMA, Metrics
from critiqor.storage import SessionPaths, read_journal
from critiqor.storage.atomic import FILE_MODE
from critiqor.storage.lock import SEALED

SOONEST_SECONDS = 0.25
PAUSE_PER_SECOND_OF_WORK = 100.0
PATIENCE_SECONDS = 0.3
"""How long the last one waits for another process that is just replacing the document."""


class _Counted(msgspec.Struct):
    event_type: str
    source_layer: str = "extension_api"
    status: str = "ok"


_decode = msgspec.json.Decoder(_Counted).decode


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
                head = {"schema_version": EVIDENCE_SCHEMA, "run_id": self._run_id, "session_id": self._run_id}
                file.write(msgspec.json.encode(head)[:-1] + b',"events":[')
                metrics = Metrics()
                for line in read_journal(self._journal, self._journal.stat().st_size):
                    if line.data is not None and line.terminated and _counted(line.data, metrics):
                        file.write((b",\n" if metrics.total_events > 1 else b"\n") + line.data.strip())
                file.write(b'\n],"metrics":' + msgspec.json.encode(metrics) + b"}\n")
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


def _counted(data: bytes, metrics: Metrics) -> bool:
    """Count a record, if it is one."""
    try:
        event = _decode(data)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return False
    metrics.total_events += 1
    for counts, name in ((metrics.by_event_type, event.event_type), (metrics.by_source_layer, event.source_layer)):
        counts[name] = counts.get(name, 0) + 1
    metrics.error_events += event.status == "error"
    metrics.tool_calls += event.event_type == "tool_call"
    return True
