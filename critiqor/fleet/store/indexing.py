"""Stored runs for the index: the one place where storing calls the index."""

from __future__ import annotations

from collections.abc import Sequence

from critiqor.fleet.errors import FleetError, FleetUnavailableError
from critiqor.fleet.index.entry import IndexEntry
from critiqor.fleet.index.opening import open_index
from critiqor.fleet.index.stored_entries import stored_entries
from critiqor.fleet.settings import FleetSettings
from critiqor.fleet.store.object_store import FleetStore
from critiqor.fleet.store.outbox import PushOutbox


def index_stored(names: Sequence[str], store: FleetStore, settings: FleetSettings, outbox: PushOutbox) -> None:
    """Add runs of an outbox that are stored to the index, and remove them from the outbox.

    What is indexed is read from the store, as by `critiqor fleet reindex`, so the rows are the same. Raise an error if
    the store or the index is away; adding the runs again later is harmless. A run whose stored bundle cannot be read is
    set aside. A run of a tenant whose runs the index does not take is stored only.
    """
    entries: list[IndexEntry] = []
    done: list[str] = []
    for name in names:
        stored = outbox.stored(name)
        if stored is None or stored.store != store.url:
            outbox.forget("indexing", name)  # it was stored elsewhere, before the settings were changed
            continue
        try:
            entries += stored_entries(store, store.manifest(f"manifests/{stored.name}.json"))
        except FleetUnavailableError:
            raise
        except FleetError as error:
            outbox.refuse(name, f"it is stored, but not indexed: {error.message}")
            outbox.forget("indexing", name)
            continue
        done.append(name)
    if entries:
        with open_index(settings.index) as index:
            index.add(entry for entry in entries if index.takes(entry.manifest))
    for name in done:
        outbox.forget("indexing", name)
