"""Exporting the runs of a store as Parquet files.

The files are written into a hidden folder beside the requested one, which gets its name when all are complete: a reader
never sees half of an export.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

import msgspec

from critiqor.errors import CritiqorError, UsageError
from critiqor.fleet.analytics.partitions import PartitionedTable
from critiqor.fleet.analytics.rows import claim_rows, day_of, event_rows, finding_rows, run_row
from critiqor.fleet.analytics.tables import TABLES
from critiqor.fleet.compute.changes import MAX_LISTED, RunProblem
from critiqor.fleet.compute.selection import RunSelection
from critiqor.fleet.errors import FleetUnavailableError, missing_extra
from critiqor.fleet.manifest import Manifest
from critiqor.fleet.scratch import scratch_folder
from critiqor.fleet.store.diagnoses import read_latest_diagnosis
from critiqor.fleet.store.stored_bundle import open_bundle, unpack_bundle
from critiqor.model import Event
from critiqor.storage.session_document import decode_event

if TYPE_CHECKING:
    from critiqor.fleet.store.object_store import FleetStore


class TableExport(msgspec.Struct, frozen=True):
    """What was written of one table."""

    table: str
    rows: int
    files: int


class ParquetExport(msgspec.Struct, kw_only=True):
    """What an export wrote."""

    store: str
    folder: str
    runs: int = 0
    """Runs that were exported."""
    tables: list[TableExport] = msgspec.field(default_factory=list)
    failed: int = 0
    problems: list[RunProblem] = msgspec.field(default_factory=list)
    """Runs that could not be read, at most a thousand of them."""
    unusable: list[str] = msgspec.field(default_factory=list)
    """Objects of the store that are no manifests, one sentence each."""


def export_parquet(
    store: FleetStore, selection: RunSelection, folder: Path, *, with_content: bool, advance: Callable[[], None]
) -> ParquetExport:
    """Write the selected runs of a store as Parquet files, in a folder that does not exist yet or is empty.

    `advance` is called once for each run of the store, selected or not.
    """
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise missing_extra(error) from error
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} exists and is not an empty folder", fix="name another folder after --parquet")
    folder.parent.mkdir(parents=True, exist_ok=True)
    written = Path(mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        export = ParquetExport(store=store.url, folder=str(folder))
        _Exporter(written, export, with_content=with_content).export(store, selection, advance)
        written.replace(folder)
    except BaseException:
        shutil.rmtree(written, ignore_errors=True)
        raise
    return export


class _Exporter:
    """Writes the tables of one export."""

    def __init__(self, folder: Path, export: ParquetExport, *, with_content: bool) -> None:
        self._export = export
        self._with_content = with_content
        tables = TABLES if with_content else [table.without_content() for table in TABLES]
        self._tables = {table.name: PartitionedTable(folder, table) for table in tables}

    def export(self, store: FleetStore, selection: RunSelection, advance: Callable[[], None]) -> None:
        for manifest in _in_order(store):
            if selection.has(manifest):
                self._add_or_name(store, manifest)
            advance()
        for table in self._tables.values():
            table.close()
        self._export.unusable = store.problems
        self._export.tables = [TableExport(name, table.rows, table.files) for name, table in self._tables.items()]

    def _add_or_name(self, store: FleetStore, manifest: Manifest) -> None:
        try:
            self._add(store, manifest)
        except FleetUnavailableError:
            raise
        except (CritiqorError, KeyError, ValueError) as error:
            self._export.failed += 1
            if len(self._export.problems) < MAX_LISTED:
                self._export.problems.append(RunProblem.of(manifest, str(error).partition("\n")[0]))
        else:
            self._export.runs += 1

    def _add(self, store: FleetStore, manifest: Manifest) -> None:
        day, host, content = day_of(manifest), manifest.host_id, self._with_content
        diagnosis = read_latest_diagnosis(store, manifest)
        with scratch_folder("export-") as scratch:
            events = _events(store, manifest, scratch)
            for event_day, row in event_rows(manifest, events, with_content=content):
                self._tables["events"].add(event_day, host, [row])
        self._tables["runs"].add(day, host, [run_row(manifest, diagnosis, with_content=content)])
        self._tables["findings"].add(day, host, finding_rows(manifest, diagnosis, with_content=content))
        self._tables["claims"].add(day, host, claim_rows(manifest, diagnosis, with_content=content))


def _in_order(store: FleetStore) -> Iterator[Manifest]:
    """Yield the manifests host by host, in order of time, so that rows of one day follow each other."""
    hosts = {name.split("/")[1] for name in store.list("manifests") if name.count("/") == 2}
    for host in sorted(hosts):
        yield from sorted(store.manifests(host), key=lambda each: (each.timestamps.created_at, each.name))


def _events(store: FleetStore, manifest: Manifest, scratch: Path) -> Iterator[Event]:
    """Yield the events of a run. Raise `FleetError` before the first one if its bundle is damaged."""
    if manifest.content == "full":
        yield from unpack_bundle(store, manifest, scratch).events()
        return
    with open_bundle(store, manifest) as archive, archive.open(f"{manifest.run_id}/events.jsonl") as lines:
        yield from map(decode_event, lines)
