"""Importing a trace from another recorder as a new run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from critiqor.model import EventType, Metadata, now_ms
from critiqor.run.finalization import finalize, set_cut
from critiqor.run.owner import this_process
from critiqor.run.store import Run, RunStore
from critiqor.storage import AtomicFile, exclusive
from critiqor.storage import run_record as records
from critiqor.storage.record_filter import RecordFilter

if TYPE_CHECKING:
    from critiqor.importers import ImportedTrace


def import_trace(trace: ImportedTrace, store: RunStore, metadata: Mapping[str, str]) -> Run:
    """Create a run from an imported trace: seal its events, diagnose them and complete the record.

    It does not use the active slot, so a recording in progress is not disturbed. `metadata` takes the names that
    `create_session` takes.
    """
    paths = store.paths
    defaults = {"agent_id": "imported_agent", "benchmark_id": "imported"}
    described = Metadata.parse(**{**defaults, **metadata, "framework": "imported"})
    with exclusive(paths.lock_path):
        moment = now_ms()
        record = records.new_record(paths, described, this_process(), moment)
        payload = {"format": trace.format, "trace_id": trace.trace_id, "notes": trace.notes}
        safe = RecordFilter(Run(record.run_id, paths).redactor()).supervisor_event(payload)
        records.append_event(record, {"event_type": EventType.RUN_IMPORTED, "payload": safe}, moment)
        with AtomicFile(paths.journal_path(record.run_id)) as journal:
            for event in trace.events:
                journal.write(msgspec.json.encode(event) + b"\n")
        records.change_state(record, "FINALIZING", moment)
        set_cut(paths, record)
        records.save(paths, record)
    return finalize(store.run(record.run_id), store)
