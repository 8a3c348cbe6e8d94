"""The state machine of a session: start, append lifecycle events, abort. `finalization` holds the other transitions.

    IDLE → MONITORING → FINALIZING → COMPLETED
                 └────────────┴────→ ABORTED

An imported run was never monitored and starts with FINALIZING.

Every transition is written to `runs/<run_id>.json` before anything depends on it, under one lock per runs folder.
`critiqor.session` offers these functions with run ids and dictionaries.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from critiqor.errors import NoActiveSessionError
from critiqor.model import Metadata, SessionRecord, iso_from_ms, now_ms
from critiqor.run.active_slot import active_run_id, free_slot, refuse_second_session, write_slot
from critiqor.run.owner import this_process
from critiqor.run.store import Run, RunStore
from critiqor.storage import exclusive, write_bytes
from critiqor.storage import run_record as records
from critiqor.storage.session_document import empty_document


def start_session(
    store: RunStore, metadata: Metadata, *, owned: bool = True, slot: str | None = None, segment: str | None = None
) -> SessionRecord:
    """Claim a slot and write the record of a new run, MONITORING. Return the record.

    Without an owner, for an OpenClaw that Critiqor did not launch, the session is never abandoned. `segment` says when
    the recording is cut. Raise `ActiveSessionError` while another session holds the slot.
    """
    paths = store.paths
    with exclusive(paths.lock_path):
        refuse_second_session(paths, slot)
        moment = now_ms()
        record = records.new_record(paths, metadata, this_process() if owned else None, moment)
        record.slot, record.segment = slot, segment
        record.timestamps = msgspec.structs.replace(record.timestamps, started_at=iso_from_ms(moment))
        records.change_state(record, "MONITORING", moment)
        write_bytes(paths.evidence_summary_path(record.run_id), empty_document(record.run_id))
        records.save(paths, record)
        write_slot(paths, record)
    return record


def append_lifecycle_event(run: Run, event: Mapping[str, Any]) -> dict[str, Any] | None:
    """Write a lifecycle event into the record of a run that is being recorded. Return it, or None for any other run.

    `event` is as for `critiqor.session.append_event_to_run`.
    """
    with exclusive(run.paths.lock_path):
        # A completed record can be large, and its head is enough to know its status.
        if not run.head().is_being_recorded:
            return None
        record = run.record()
        written = records.append_event(record, _filtered(event, run))
        records.save(run.paths, record)
        return written


def abort(run: Run | None, store: RunStore, reason: str, slot: str | None = None) -> SessionRecord:
    """Set a session (default: the active one of the slot) to ABORTED and free its slot. Return the record."""
    paths = store.paths
    with exclusive(paths.lock_path):
        run = run or store.run(active_run_id(paths, "abort", slot))
        head = run.head()
        if head.status == "COMPLETED" and not head.has_forged_status:
            raise NoActiveSessionError(f"{run.id} is completed", fix=f"critiqor show {run.id}")
        record = run.record()
        if record.status != "ABORTED":
            details = _filtered({"reason": reason}, run)
            records.change_state(record, "ABORTED", now_ms(), **details)
            records.save(paths, record)
        free_slot(paths, record)
    return record


def _filtered(event: Mapping[str, Any], run: Run) -> dict[str, Any]:
    # Imported here, so that starting a session loads no rules for secrets.
    from critiqor.storage.record_filter import RecordFilter

    return RecordFilter(run.redactor()).supervisor_event(event)
