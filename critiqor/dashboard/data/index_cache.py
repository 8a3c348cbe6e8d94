"""Cache of event indexes. They are built in the background, one at a time."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path

from critiqor.dashboard.data.event_index import EventIndex
from critiqor.dashboard.data.index_builder import build_index
from critiqor.errors import CritiqorError
from critiqor.run.store import Run
from critiqor.run.view import RunView

FILE_NAME = "events.sqlite"


class IndexCache:
    """The event indexes of runs. Each is a file in the folder of its run, and is deleted with it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ready: dict[str, EventIndex] = {}
        self._building: dict[str, threading.Event] = {}
        self._failed: dict[str, str] = {}
        self._one_at_a_time = threading.Lock()
        self._elsewhere: tempfile.TemporaryDirectory[str] | None = None

    def index_of(self, view: RunView, timeout: float = 0.0) -> EventIndex | None:
        """Return the index of a sealed run; None while it is being built, after waiting `timeout` seconds for it."""
        if view.seal is None:
            return None
        run, digest = view.run, view.seal.digest
        with self._lock:
            index = self._ready.get(run.id)
            if index is not None and index.is_of(digest):
                return index
            done = self._building.get(run.id)
            if done is None:
                self._ready.pop(run.id, None)
                if digest in self._failed:
                    return None
                done = self._building[run.id] = threading.Event()
                threading.Thread(target=self._build, args=(run, digest, done), daemon=True).start()
        done.wait(timeout)
        with self._lock:
            return self._ready.get(run.id) if done.is_set() else None

    def ready(self, view: RunView) -> EventIndex | None:
        """Return the index of a sealed run if there is one already; none is built."""
        if view.seal is None:
            return None
        with self._lock:
            known = self._ready.get(view.run_id)
        file = view.run.folder / FILE_NAME
        if known is None and (file.is_symlink() or not file.is_file()):
            return None
        index = known or EventIndex(file, view.run.evidence_path)
        return index if index.is_of(view.seal.digest) else None

    def problem(self, view: RunView) -> str | None:
        """Return why the index of a run cannot be built."""
        return self._failed.get(view.seal.digest) if view.seal is not None else None

    def _build(self, run: Run, digest: str, done: threading.Event) -> None:
        try:
            with self._one_at_a_time:
                file = run.folder / FILE_NAME
                index = EventIndex(file, run.evidence_path)
                if file.is_symlink() or not file.exists() or not index.is_of(digest):
                    index = self._build_file(run, digest, file)
            with self._lock:
                self._ready[run.id] = index
        except (CritiqorError, OSError, ValueError) as error:
            self._failed[digest] = str(error)
        except Exception as error:
            # An error in a thread would not be reported, and the page would wait for ever.
            self._failed[digest] = f"{type(error).__name__}: {error}"
        finally:
            with self._lock:
                del self._building[run.id]
            done.set()

    def _build_file(self, run: Run, digest: str, file: Path) -> EventIndex:
        try:
            return build_index(run, digest, file)
        except OSError:
            # The runs folder can be read-only or full.
            if self._elsewhere is None:
                self._elsewhere = tempfile.TemporaryDirectory(prefix="critiqor-dashboard-")
            return build_index(run, digest, Path(self._elsewhere.name) / f"{run.id}.sqlite")
