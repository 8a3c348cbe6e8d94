"""The state machine of a session: create, append lifecycle events, request finalizing, abort.

    IDLE → MONITORING → FINALIZING → COMPLETED
                 └────────────┴────→ ABORTED

An imported run was never monitored and starts with FINALIZING.

Every transition is written to `runs/<run_id>.json` before anything depends on it, under one lock per runs folder.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import msgspec

from critiqor.errors import ActiveSessionError, BrokenRecordError, NoActiveSessionError
from critiqor.model import (
    Event,
    EventType,
    Metadata,
    Owner,
    RunHead,
    SessionRecord,
    Status,
    Timestamps,
    Transition,
    event_id_for,
    iso_from_ms,
    ms_from_iso,
    now_ms,
)
from critiqor.model.record import Cut
from critiqor.run.store import DEFAULT_RUNS_DIR, Run, RunStore, is_owner_alive
from critiqor.storage import SessionPaths, exclusive, paths_for, write_bytes
from critiqor.storage import run_record as records
from critiqor.storage.paths import FOLDER_MODE
from critiqor.storage.record_filter import RecordFilter
from critiqor.storage.redaction import new_redaction_key
from critiqor.storage.session_document import empty_document, restore_journal, write_live_document

RunReference = str | Mapping[str, Any]
"""A run named by its id or by its record."""
SUPERVISOR = "0supervisor"
"""Writer name of lifecycle events; sorts before any recorder within the same millisecond."""


def create_session(
    runs_dir: str | Path = DEFAULT_RUNS_DIR,
    agent_id: str = Metadata().agent_id,
    tenant_id: str = Metadata().tenant_id,
    framework: str = Metadata().framework,
    visibility: str = Metadata().visibility,
    benchmark_id: str = Metadata().benchmark_id,
    difficulty_tier: str = Metadata().difficulty_tier,
) -> dict[str, Any]:
    """Start a session: claim the active slot and write the record of a new run, MONITORING. Return the record.

    Raise `ActiveSessionError` while another session holds the slot.
    """
    named = {"agent_id": agent_id, "tenant_id": tenant_id, "framework": framework, "visibility": visibility}
    metadata = Metadata.parse(**named, benchmark_id=benchmark_id, difficulty_tier=difficulty_tier)
    return _start(paths_for(runs_dir), metadata)


def create_attached_session(runs_dir: str | Path = DEFAULT_RUNS_DIR, **metadata: str) -> dict[str, Any]:
    """Start a session for an OpenClaw that Critiqor did not launch. No process owns it, so it is never abandoned."""
    return _start(paths_for(runs_dir), Metadata.parse(**metadata), owned=False)


def _start(paths: SessionPaths, metadata: Metadata, *, owned: bool = True) -> dict[str, Any]:
    with exclusive(paths.lock_path):
        _refuse_second_session(paths)
        moment = now_ms()
        record = new_record(paths, metadata, moment)
        record.owner = record.owner if owned else None
        record.timestamps = msgspec.structs.replace(record.timestamps, started_at=iso_from_ms(moment))
        change_state(record, "MONITORING", moment)
        write_bytes(paths.evidence_summary_path(record.run_id), empty_document(record.run_id))
        records.save(paths, record)
        records.write_slot(paths, record)
    return as_dict(record)


def append_event_to_run(
    run: RunReference, event: Mapping[str, Any], runs_dir: str | Path = DEFAULT_RUNS_DIR
) -> dict[str, Any] | None:
    """Write a lifecycle event into the run record. Return the written event, or None if the run accepts no more events.

    `event` needs an `event_type`; `payload`, `status` and `error` are optional; all other keys are moved into the
    payload.
    """
    handle = RunStore(runs_dir).run(run_id_of(run))
    with exclusive(handle.paths.lock_path):
        # A completed record can be large, and its head is enough to know its status.
        if handle.head().status != "MONITORING":
            return None
        record = handle.record()
        written = append_event(record, RecordFilter(handle.redactor()).supervisor_event(event))
        records.save(handle.paths, record)
        return written


def request_finalize(run: RunReference | None = None, runs_dir: str | Path = DEFAULT_RUNS_DIR) -> dict[str, Any]:
    """Set a session to FINALIZING, in its record and in the active slot, and fix the end of its evidence.

    The default is the active session. A session that is already FINALIZING or COMPLETED is not changed. Return the head
    of the record.
    """
    return as_dict(start_finalizing(run, RunStore(runs_dir)).head())


def start_finalizing(run: RunReference | None, store: RunStore) -> Run:
    """Set a session (default: the active one) to FINALIZING, unless it is FINALIZING or COMPLETED. Return its run."""
    paths = store.paths
    with exclusive(paths.lock_path):
        handle = store.run(run_id_of(run) if run else _active_run_id(paths, "finalize"))
        head = handle.head()
        refuse_aborted(head)
        if head.status == "MONITORING":
            record = handle.record()
            change_state(record, "FINALIZING", now_ms())
            set_cut(paths, record)
            records.save(paths, record)
            holder = records.active_record(paths)
            if holder is None or holder.run_id == handle.id:
                records.write_slot(paths, record)
        return handle


def abort_session(
    run: RunReference | None = None, runs_dir: str | Path = DEFAULT_RUNS_DIR, reason: str = "aborted on request"
) -> dict[str, Any]:
    """Set a session to ABORTED and free the active slot. The recorded events are kept and can still be diagnosed."""
    paths = paths_for(runs_dir)
    with exclusive(paths.lock_path):
        handle = Run(run_id_of(run) if run else _active_run_id(paths, "abort"), paths)
        if handle.head().status == "COMPLETED":
            raise NoActiveSessionError(f"{handle.id} is completed", fix=f"critiqor show {handle.id}")
        record = handle.record()
        if record.status != "ABORTED":
            details = RecordFilter(handle.redactor()).supervisor_event({"reason": reason})
            change_state(record, "ABORTED", now_ms(), **details)
            records.save(paths, record)
        records.free_slot(paths, handle.id)
    return as_dict(record)


def refresh_live_evidence(run_id: str, runs_dir: str | Path = DEFAULT_RUNS_DIR) -> None:
    """Update session.json of an unsealed run from its journal, after its recorder was killed."""
    paths = paths_for(runs_dir)
    # A finalize takes this lock before it locks session.json permanently.
    with exclusive(paths.finalize_lock_path(run_id)):
        if paths.journal_path(run_id).exists() and not paths.session_lock_path(run_id).exists():
            write_live_document(paths, run_id)


def run_id_of(run: RunReference) -> str:
    """Return the id of a run that is named by its id or by its record."""
    return run if isinstance(run, str) else str(run["run_id"])


def new_record(paths: SessionPaths, metadata: Metadata, moment: int) -> SessionRecord:
    """Return the record of a new run, and create its folder and redaction key. The caller holds the folder's lock.

    The record itself is not written yet.
    """
    run_id = records.next_run_id(paths)
    now = iso_from_ms(moment)
    paths.run_folder(run_id).mkdir(mode=FOLDER_MODE, exist_ok=True)
    write_bytes(paths.redaction_key_path(run_id), new_redaction_key())
    return SessionRecord(
        run_id=run_id,
        status="IDLE",
        lifecycle=[Transition("IDLE", now)],
        timestamps=Timestamps(created_at=now),
        metadata=metadata,
        owner=_this_process(),
    )


def refuse_aborted(head: RunHead) -> None:
    """Raise `NoActiveSessionError` for an aborted run."""
    if head.status == "ABORTED":
        fix = f"critiqor diagnose {head.run_id}"
        raise NoActiveSessionError(f"{head.run_id} was aborted and cannot be finalized", fix=fix)


def _refuse_second_session(paths: SessionPaths) -> None:
    record = records.active_record(paths)
    if record is None:
        return
    state = f"{record.run_id} is {record.status}"
    if record.owner is not None and not is_owner_alive(record):
        state += ", but the process that started it is gone"
    raise ActiveSessionError(
        f"another run is active in this runs folder: {state}",
        fix="critiqor finalize   (or: critiqor abort, or another --runs-dir)",
    )


def _active_run_id(paths: SessionPaths, verb: str) -> str:
    head = records.slot_head(paths)
    # A completed run still holds the slot if its finalize was killed just before the end.
    if head is not None and head.status in records.ACTIVE | {"COMPLETED"}:
        return head.run_id
    # A session whose slot was lost or damaged must stay reachable.
    for run_id in reversed(paths.run_ids()):
        with suppress(BrokenRecordError):
            if records.load_head(paths, run_id).status in records.ACTIVE:
                return run_id
    latest = paths.run_ids()[-1:]
    fix = f"critiqor show {latest[0]}   shows the latest run" if latest else "critiqor monitor openclaw"
    raise NoActiveSessionError(f"no run is active in this runs folder, so there is nothing to {verb}", fix=fix)


def _this_process() -> Owner:
    import psutil

    return Owner(pid=os.getpid(), started_at=psutil.Process().create_time())


def change_state(record: SessionRecord, state: Status, moment: int, **details: Any) -> None:
    """Move a record to another state, with its state_transition event."""
    previous, record.status = record.status, state
    record.lifecycle.append(Transition(state, iso_from_ms(moment)))
    payload = {"from": previous, "to": state, **details}
    append_event(record, {"event_type": EventType.STATE_TRANSITION, "payload": payload}, moment)


_ENVELOPE = frozenset({*Event.__struct_fields__, "type"})


def append_event(record: SessionRecord, event: Mapping[str, Any], moment: int | None = None) -> dict[str, Any]:
    """Append a lifecycle event to a record. Return it in the full envelope."""
    moment = moment or ms_from_iso(str(event.get("timestamp", ""))) or now_ms()
    kind = str(event.get("event_type") or event.get("type") or "unknown")
    payload = event.get("payload") or {}
    if not isinstance(payload, dict):
        payload = {"value": payload}
    error, duration = event.get("error"), event.get("duration_ms")
    written = Event(
        event_id=event_id_for(moment, SUPERVISOR, len(record.event_log) + 1),
        event_type=kind,
        raw_event_type=kind,
        timestamp=iso_from_ms(moment),
        source_layer="supervisor",
        status=str(event.get("status") or ("error" if kind == EventType.ERROR else "ok")),
        error=error if error is None else str(error),
        duration_ms=duration if isinstance(duration, int | float) else None,
        payload=payload | {name: event[name] for name in event if name not in _ENVELOPE},
    )
    record.event_log.append(msgspec.to_builtins(written))
    return cast("dict[str, Any]", record.event_log[-1])


def set_cut(paths: SessionPaths, record: SessionRecord) -> None:
    """Fix the end of the evidence of a run: the current end of its journal, lifecycle events and timeline."""
    journal = paths.journal_path(record.run_id)
    if not journal.exists():
        restore_journal(paths.evidence_summary_path(record.run_id), journal)
    size = journal.stat().st_size if journal.exists() else 0
    timeline = paths.timeline_path(record.run_id)
    timeline_bytes = timeline.stat().st_size if timeline.is_file() else None
    record.cut = Cut(journal_bytes=size, lifecycle_events=len(record.event_log), timeline_bytes=timeline_bytes)


def as_dict(record: RunHead) -> dict[str, Any]:
    """Return a record or its head as the dictionary that the documented functions return."""
    return cast("dict[str, Any]", msgspec.to_builtins(record))
