"""Runs in a store and an index, as several hosts push them."""

from __future__ import annotations

from pathlib import Path

from critiqor.fleet.index.entry import IndexEntry
from critiqor.fleet.index.opening import open_index
from critiqor.fleet.index.stored_entries import stored_entries
from critiqor.fleet.manifest import Content, Manifest
from critiqor.fleet.settings import FleetSettings
from critiqor.fleet.store.object_store import open_store
from critiqor.fleet.store.storing import store_run
from critiqor.run.store import RunStore


class StoredFleet:
    """A store that is a folder, and an index that is a file."""

    def __init__(self, folder: Path) -> None:
        self.store_folder = folder / "store"
        self.index_file = folder / "index.sqlite"
        self.store_url = f"file://{self.store_folder}"
        self.index_url = f"sqlite://{self.index_file}"

    def push(self, runs_dir: Path, *run_ids: str, host: str = "build-7", content: Content = "full") -> list[Manifest]:
        """Store and index runs of a folder, as a host does."""
        store = open_store(self.store_url)
        settings = FleetSettings(store=self.store_url, push="private", content=content, host=host)
        stored = [store_run(RunStore(runs_dir).run(run_id), store, settings).manifest for run_id in run_ids]
        self.add(*(entry for manifest in stored for entry in stored_entries(store, manifest)))
        return stored

    def add(self, *entries: IndexEntry) -> None:
        """Index runs, whether they are stored or not."""
        with open_index(self.index_url) as index:
            index.add(entries)
