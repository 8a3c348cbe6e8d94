"""Where the pages of the fleet come from: the index and the store, opened when they are needed first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from critiqor.dashboard.fleet.stored_runs import MAX_BYTES, OpenedRun, StoredRuns
from critiqor.fleet.errors import FleetUnavailableError
from critiqor.fleet.index.fleet_index import FleetIndex
from critiqor.fleet.index.opening import open_index
from critiqor.fleet.index.rows import IndexedRun
from critiqor.fleet.store.object_store import FleetStore, open_store
from critiqor.fleet.views.run_names import find_indexed
from critiqor.privacy.visibility import Viewer


class Fleet:
    """The index and the store of the fleet. What is away now is tried again with the next request."""

    def __init__(self, index_url: str | None, store_url: str | None, max_bytes: int = MAX_BYTES) -> None:
        self._index_url = index_url
        self._store_url = store_url
        self._lock = Lock()
        self._index: FleetIndex | None = None
        self._store: FleetStore | None = None
        self._runs = StoredRuns(max_bytes)

    def whole_index(self) -> FleetIndex:
        """Return the index with the rows of every tenant that its role may see."""
        with self._lock:
            if self._index is None:
                self._index = open_index(self._index_url)
            return self._index

    def index(self, viewer: Viewer) -> FleetIndex:
        """Return the index with the rows that a viewer may see."""
        return self.whole_index().showing(viewer.tenants)

    def store(self) -> FleetStore:
        """Return the store. Raise `FleetUnavailableError` if none is configured."""
        with self._lock:
            if self._store is None:
                if self._store_url is None:
                    raise FleetUnavailableError("no store is configured, so no run can be opened")
                self._store = open_store(self._store_url)
            return self._store

    def find(self, viewer: Viewer, host: str, run: str) -> IndexedRun:
        """Return the run that an address names. Raise `UnknownRunError` if the viewer may not see one."""
        return find_indexed(self.index(viewer), f"{host}/{run}")

    @contextmanager
    def opened(self, row: IndexedRun) -> Iterator[OpenedRun]:
        """Open a run of the store, and keep it as long as the context lasts."""
        with self._runs.opened(self.store, row) as run:
            yield run

    def close(self) -> None:
        """Close the index, and remove what was fetched."""
        with self._lock:
            if self._index is not None:
                self._index.close()
                self._index = None
        self._runs.close()
