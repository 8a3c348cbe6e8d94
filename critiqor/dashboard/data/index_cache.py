"""Where indexes are kept, and who makes them: one thread at a time, in the background."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path

from critiqor.dashboard.data.event_index import EventIndex
from critiqor.dashboard.data.index_builder import build_index
from critiqor.dashboard.data.run_catalog import OpenedRun
from critiqor.errors import CritiqorError
from critiqor.storage import SessionPaths

FILE_NAME = "events.sqlite"


class IndexCache:
    """The indexes of the runs of a folder. Each lies in the folder of its run, and goes when that goes."""

    def __init__(self, paths: SessionPaths) -> None:
        self._paths = paths
        self._lock = threading.Lock()
        self._ready: dict[str, EventIndex] = {}
        self._building: dict[str, threading.Event] = {}
        self._failed: dict[str, str] = {}
        self._one_at_a_time = threading.Lock()
        self._elsewhere: tempfile.TemporaryDirectory[str] | None = None

    def index_of(self, run: OpenedRun, patience: float = 0.0) -> EventIndex | None:
        """The index of a sealed run; None while it is being made, after waiting `patience` seconds for it."""
        if not run.is_sealed:
            return None
        digest = run.head["seal"]["digest"]
        with self._lock:
            index = self._ready.get(run.run_id)
            if index is not None and index.is_of(digest):
                return index
            done = self._building.get(run.run_id)
            if done is None:
                self._ready.pop(run.run_id, None)
                if digest in self._failed:
                    return None
                done = self._building[run.run_id] = threading.Event()
                threading.Thread(target=self._make, args=(run.run_id, digest, done), daemon=True).start()
        done.wait(patience)
        with self._lock:
            return self._ready.get(run.run_id) if done.is_set() else None

    def problem(self, run: OpenedRun) -> str | None:
        """Why there will be no index."""
        return self._failed.get(run.head["seal"]["digest"]) if run.is_sealed else None

    def _make(self, run_id: str, digest: str, done: threading.Event) -> None:
        try:
            with self._one_at_a_time:
                document = self._paths.evidence_summary_path(run_id)
                file = self._paths.run_folder(run_id) / FILE_NAME
                index = EventIndex(file, document)
                if file.is_symlink() or not file.exists() or not index.is_of(digest):
                    index = self._built(run_id, digest, file)
            with self._lock:
                self._ready[run_id] = index
        except (CritiqorError, OSError, ValueError) as error:
            self._failed[digest] = str(error)
        except Exception as error:
            # In a thread nobody would hear of it, and the page would wait for ever.
            self._failed[digest] = f"{type(error).__name__}: {error}"
        finally:
            with self._lock:
                del self._building[run_id]
            done.set()

    def _built(self, run_id: str, digest: str, file: Path) -> EventIndex:
        try:
            return build_index(self._paths, run_id, digest, file)
        except OSError:
            # A runs folder that can only be read, or is full, is still one to look at.
            if self._elsewhere is None:
                self._elsewhere = tempfile.TemporaryDirectory(prefix="critiqor-dashboard-")
            return build_index(self._paths, run_id, digest, Path(self._elsewhere.name) / f"{run_id}.sqlite")
