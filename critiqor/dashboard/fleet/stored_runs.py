"""Opened runs of a store. Each is fetched once, checked and unpacked, and shown by the pages that show any other run.

The folder of opened runs is bounded: those that were not looked at for the longest time are removed first, and none
while a request reads it. Only the bundle of the run that is opened is fetched.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import BoundedSemaphore, Lock

from critiqor.dashboard.data.index_cache import IndexCache
from critiqor.dashboard.data.run_catalog import RunCatalog
from critiqor.dashboard.data.run_page_data import RunPageData, StoredPlace
from critiqor.dashboard.web.links import path_segment
from critiqor.errors import UnknownRunError
from critiqor.fleet.errors import FleetUnavailableError
from critiqor.fleet.index.rows import FailureType, IndexedRun
from critiqor.fleet.manifest import diagnosis_path, rule_set_order
from critiqor.fleet.scratch import scratch_folder
from critiqor.fleet.store.object_store import FleetStore
from critiqor.fleet.store.stored_bundle import MAX_DIAGNOSIS, decode_diagnosis, unpack_bundle
from critiqor.fleet.views.run_names import DIGITS, exact_name
from critiqor.privacy.visibility import Viewer
from critiqor.run.store import RunStore
from critiqor.storage import write_bytes

MAX_BYTES = 4 << 30
"""Maximum size of all opened runs in bytes."""
AT_ONCE = 2
"""Number of runs that are fetched at the same time."""
WAIT_SECONDS = 20.0
"""How long a request waits for others to be fetched."""
_STRIPES = 64


def stored_address(run: IndexedRun | FailureType) -> str:
    """Return the address of the overview of a run; it names the seal, so it means no other run."""
    digits = run.seal.removeprefix("sha256:")[:DIGITS]
    return f"/fleet/runs/{path_segment(run.host)}/{path_segment(run.run)}@{path_segment(digits)}"


class OpenedRun:
    """A run of a store that was unpacked."""

    def __init__(self, row: IndexedRun, folder: Path) -> None:
        self.row = row
        self.folder = folder
        """A runs folder with this run only."""
        self.bytes = _size_of(folder)
        self.users = 1
        """Number of requests that read it."""
        # Of its own: runs of different hosts have the same ids.
        self._catalog = RunCatalog(RunStore(folder))
        self._indexes = IndexCache()

    def page_data(self, viewer: Viewer) -> RunPageData:
        """Return the data of the pages of this stored run. Raise `UnknownRunError` if the viewer may not see it."""
        view = self._catalog.open(self.row.run, viewer)
        return RunPageData(view, self._indexes, StoredPlace(exact_name(self.row), stored_address(self.row)))


class StoredRuns:
    """The opened runs of a store."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._run_limit = max_bytes // 4
        """Maximum size of a run. There is always room for those that are fetched at the same time."""
        self._folder: Path | None = None
        self._ends = ExitStack()
        self._runs: dict[str, OpenedRun] = {}
        """By the ids of their rows, those that were used last at the end."""
        self._lock = Lock()
        self._stripes = [Lock() for _ in range(_STRIPES)]
        self._slots = BoundedSemaphore(AT_ONCE)

    @property
    def folder(self) -> Path:
        """Where runs are unpacked."""
        with self._lock:
            if self._folder is None:
                self._folder = self._ends.enter_context(scratch_folder("dashboard-"))
            return self._folder

    @contextmanager
    def opened(self, open_store: Callable[[], FleetStore], row: IndexedRun) -> Iterator[OpenedRun]:
        """Open a run, and keep it as long as the context lasts. Raise `FleetError` if it cannot be used."""
        run = self._take(row) or self._fetch_once(open_store, row)
        try:
            yield run
        finally:
            size = _size_of(run.folder)  # with the index of its events
            with self._lock:
                run.users -= 1
                run.bytes = size
            self._make_room()

    def close(self) -> None:
        """Remove all runs."""
        with self._lock:
            self._runs.clear()
            self._folder = None
            self._ends.close()

    def _take(self, row: IndexedRun) -> OpenedRun | None:
        with self._lock:
            run = self._runs.pop(row.id, None)
            if run is not None:
                self._runs[row.id] = run
                run.users += 1
            return run

    def _fetch_once(self, open_store: Callable[[], FleetStore], row: IndexedRun) -> OpenedRun:
        # Others who want the same run wait for this request.
        with self._stripes[hash(row.id) % _STRIPES]:
            if (run := self._take(row)) is not None:
                return run
            if not self._slots.acquire(timeout=WAIT_SECONDS):
                raise FleetUnavailableError("other runs are being fetched from the store", fix="reload this page")
            try:
                self._make_room()
                run = self._fetch(open_store(), row)
            finally:
                self._slots.release()
            with self._lock:
                self._runs[row.id] = run
            return run

    def _fetch(self, store: FleetStore, row: IndexedRun) -> OpenedRun:
        manifest = store.manifest(row.manifest_path)
        if (manifest.seal, manifest.metadata.tenant_id) != (row.seal, row.tenant):
            # Whoever wrote the row must not decide which tenant sees a run.
            raise UnknownRunError(f"there is no run {row.name} in {store.url}", fix="critiqor fleet reindex")
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        try:
            unpacked = unpack_bundle(store, manifest, folder, self._run_limit)
            if rule_set_order(row.rule_set) > rule_set_order(manifest.rule_set):
                data = store.read(diagnosis_path(manifest.seal, row.rule_set), MAX_DIAGNOSIS)
                decode_diagnosis(data, manifest)
                write_bytes(unpacked.diagnosis_path, data)
            return OpenedRun(row, folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def _make_room(self) -> None:
        """Remove runs until there is room for those that may be fetched at the same time."""
        allowed, removed = self._max_bytes - AT_ONCE * self._run_limit, []
        with self._lock:
            total = sum(run.bytes for run in self._runs.values())
            for key, run in list(self._runs.items()):
                if total <= allowed:
                    break
                if run.users == 0:
                    del self._runs[key]
                    total -= run.bytes
                    removed.append(run)
        for run in removed:
            shutil.rmtree(run.folder, ignore_errors=True)


def _size_of(folder: Path) -> int:
    size = 0
    for path in folder.rglob("*"):
        try:
            size += path.lstat().st_size
        except FileNotFoundError:
            continue  # of an index that was just completed
    return size
