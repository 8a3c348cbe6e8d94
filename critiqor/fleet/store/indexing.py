"""Stored runs for the index: the one place where storing calls the index."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from critiqor.fleet.errors import FleetError, FleetUnavailableError
from critiqor.fleet.index.base import RefusedRowsError
from critiqor.fleet.index.entry import IndexEntry
from critiqor.fleet.index.fleet_index import FleetIndex
from critiqor.fleet.index.opening import open_index
from critiqor.fleet.index.stored_entries import stored_entries
from critiqor.fleet.settings import FleetSettings
from critiqor.fleet.store.object_store import FleetStore
from critiqor.fleet.store.outbox import PushOutbox


def index_stored(names: Sequence[str], store: FleetStore, settings: FleetSettings, outbox: PushOutbox) -> None:
    """Add runs of an outbox that are stored to the index, and remove them from the outbox.

    What is indexed is read from the store, as by `critiqor fleet reindex`, so the rows are the same. Raise an error if
    the store or the index is away; adding the runs again later is harmless. A run whose stored bundle cannot be read,
    or whose rows the index refuses, is set aside. A run of a tenant whose runs the index does not take is stored only.
    """
    found: dict[str, list[IndexEntry]] = {}
    for name in names:
        stored = outbox.stored(name)
        if stored is None or stored.store != store.url:
            outbox.forget("indexing", name)  # it was stored elsewhere, before the settings were changed
            continue
        try:
            found[name] = list(stored_entries(store, store.manifest(f"manifests/{stored.name}.json")))
        except FleetUnavailableError:
            raise
        except FleetError as error:
            _set_aside(outbox, name, error)
    if not found:
        return
    with open_index(settings.index) as index:
        try:
            _add(index, found.values())
        except (RefusedRowsError, ValueError, OverflowError):
            # One by one: the others are not to wait for the one that is refused.
            for name, entries in found.items():
                try:
                    _add(index, [entries])
                except (RefusedRowsError, ValueError, OverflowError) as error:
                    _set_aside(outbox, name, error)
    for name in found:
        outbox.forget("indexing", name)


def _add(index: FleetIndex, found: Iterable[list[IndexEntry]]) -> None:
    index.add(entry for entries in found for entry in entries if index.takes(entry.manifest))


def _set_aside(outbox: PushOutbox, name: str, error: Exception) -> None:
    reason = error.message if isinstance(error, FleetError) else str(error)
    outbox.refuse(name, f"it is stored, but not indexed: {reason}")
    outbox.forget("indexing", name)
