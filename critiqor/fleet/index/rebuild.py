"""Rebuilding of the index from the store: what is missing is added, so it can be interrupted and repeated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import msgspec

from critiqor.fleet.errors import FleetError, FleetUnavailableError
from critiqor.fleet.index.base import RefusedRowsError
from critiqor.fleet.index.entry import IndexEntry, entry_key
from critiqor.fleet.index.fleet_index import FleetIndex
from critiqor.fleet.index.stored_entries import stored_entries
from critiqor.fleet.manifest import Manifest
from critiqor.fleet.store.diagnoses import stored_rule_sets
from critiqor.fleet.store.object_store import FleetStore
from critiqor.fleet.threads import map_in_threads

THREADS = 4
"""Number of bundles that are read at the same time."""
_BATCH = 64


class Reindexed(msgspec.Struct, frozen=True, kw_only=True):
    """What a rebuild did."""

    runs: int
    """Number of runs in the store that belong into this index."""
    added: int
    """Number of diagnoses that were not in the index."""
    other_tenants: int
    """Number of runs that were left out, because they belong to a tenant whose runs this index does not take."""
    problems: list[str]
    """Runs that could not be indexed, and why."""


def reindex(store: FleetStore, index: FleetIndex, progress: Callable[[], None] | None = None) -> Reindexed:
    """Add what is in a store and not in an index. A damaged run is reported, and costs only itself.

    Raises `FleetUnavailableError` if the store or the index is away; what was added stays.
    """
    manifests, runs, added, other = store.manifests(), 0, 0, 0
    problems: list[str] = []
    with ThreadPoolExecutor(THREADS) as pool:
        while batch := list(islice(manifests, _BATCH)):
            own = [each for each in batch if index.takes(each)]
            other += len(batch) - len(own)
            runs += len(own)
            for manifest, found in zip(own, map_in_threads(_Reader(store, index), own, pool), strict=True):
                problems += found.problems
                try:
                    added += index.add(found.entries)
                except (RefusedRowsError, ValueError, OverflowError) as error:
                    problems.append(f"{manifest.name}: {error}")
                if progress is not None:
                    progress()
    return Reindexed(runs=runs, added=added, other_tenants=other, problems=[*store.problems, *problems])


class _Found(msgspec.Struct, frozen=True):
    entries: list[IndexEntry]
    problems: list[str]


class _Reader:
    """Reads the entries of a run that are missing in an index."""

    def __init__(self, store: FleetStore, index: FleetIndex) -> None:
        self._store = store
        self._index = index

    def __call__(self, manifest: Manifest) -> _Found:
        try:
            return _Found(list(self._missing(manifest)), [])
        except FleetUnavailableError:
            raise
        except (FleetError, ValueError, OverflowError) as error:
            return _Found([], [error.message if isinstance(error, FleetError) else f"{manifest.name}: {error}"])

    def _missing(self, manifest: Manifest) -> Iterator[IndexEntry]:
        rule_sets = {manifest.rule_set, *stored_rule_sets(self._store, manifest.seal)}
        keys = [entry_key(manifest, rule_set) for rule_set in rule_sets]
        if len(self._index.known(keys)) < len(keys):
            yield from stored_entries(self._store, manifest)
