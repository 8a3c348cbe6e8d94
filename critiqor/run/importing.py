"""Importing a trace from another recorder as a new run."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from critiqor.errors import CritiqorError
from critiqor.model import EventType, Metadata, now_ms
from critiqor.run.finalization import finalize, set_cut
from critiqor.run.owner import this_process
from critiqor.run.store import Run, RunStore
from critiqor.storage import AtomicFile, exclusive
from critiqor.storage import run_record as records
from critiqor.storage.record_filter import RecordFilter

if TYPE_CHECKING:
    from critiqor.importers import ImportedTrace


IMPORTED = {"agent_id": "imported_agent", "benchmark_id": "imported", "framework": "imported"}
"""Metadata of an imported run, as far as nothing else is given."""


def import_facts(trace: ImportedTrace) -> dict[str, Any]:
    """Return the payload of the event that says that a run was imported, from where, and what was not understood."""
    return {
        "format": trace.format,
        "trace_id": trace.trace_id,
        "notes": trace.notes,
        "not_understood": trace.not_understood,
        "damaged_records": trace.coverage.damaged_records if trace.coverage is not None else 0,
    }


def import_trace(
    trace: ImportedTrace, store: RunStore, metadata: Mapping[str, str], source_digest: str | None = None
) -> Run:
    """Create a run from an imported trace: seal its events, diagnose them and complete the record.

    It does not use the active slot, so a recording in progress is not disturbed. `metadata` takes the names that
    `create_session` takes. `source_digest` identifies what was imported, for `find_import`.
    """
    paths = store.paths
    described = Metadata.parse(**{**IMPORTED, **metadata, "framework": IMPORTED["framework"]})
    with exclusive(paths.lock_path):
        moment = now_ms()
        record = records.new_record(paths, described, this_process(), moment)
        filter_ = RecordFilter(Run(record.run_id, paths).redactor())
        source = {} if source_digest is None else {"source_digest": source_digest}
        safe = filter_.supervisor_event(import_facts(trace) | source)
        with AtomicFile(paths.journal_path(record.run_id)) as journal:
            for event in trace.events:
                # A journal cannot claim the layer of the supervisor; only a run of Critiqor had one.
                if event.source_layer == "supervisor" and trace.coverage is not None:
                    record.event_log.append(msgspec.to_builtins(event))
                else:
                    data = msgspec.json.encode(event)
                    if filter_.redactor.has_user_rules:  # importers apply the other rules
                        data = msgspec.json.encode(filter_.redacted_event(event, data))
                    journal.write(data + b"\n")
        records.append_event(record, {"event_type": EventType.RUN_IMPORTED, "payload": safe}, moment)
        records.change_state(record, "FINALIZING", moment)
        set_cut(paths, record)
        records.save(paths, record)
    return finalize(store.run(record.run_id), store)


def find_import(store: RunStore, source_digests: Collection[str]) -> tuple[Run, str] | None:
    """Return the newest run that was imported from one of these sources, whether it is completed or not, and which."""
    for run in reversed(store.runs()):
        try:
            events = run.record().event_log
        except (CritiqorError, OSError):
            continue  # whatever is wrong with it, it is of no use here
        for event in events:
            with suppress(msgspec.ValidationError):
                digest = msgspec.convert(event, _ImportEvent).payload.source_digest
                if digest in source_digests:
                    return run, digest
    return None


class _ImportFacts(msgspec.Struct):
    source_digest: str


class _ImportEvent(msgspec.Struct):
    event_type: Literal["run_imported"]
    payload: _ImportFacts
