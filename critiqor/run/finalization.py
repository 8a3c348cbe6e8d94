"""Finalizing a session: fix the end of its evidence, seal it, diagnose it and complete the record.

A finalize that is killed leaves the session FINALIZING and can be repeated: the end of the evidence was fixed when it
began, so every attempt seals the same bytes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from critiqor.errors import NoActiveSessionError
from critiqor.model import Diagnosis, Event, RunHead, Seal, SessionRecord, iso_from_ms, now_ms
from critiqor.model.record import Cut
from critiqor.run.active_slot import active_record, active_run_id, free_slot, write_slot
from critiqor.run.owner import may_be_running
from critiqor.run.segments.carried import CarriedEvents, read_carried
from critiqor.run.segments.handover import (
    discard_reserved,
    have_recorders_left,
    leave_segment,
    successor_of,
    unfinished_before,
)
from critiqor.run.store import Run, RunStore
from critiqor.storage import SessionPaths, exclusive, take_permanent_lock, write_json
from critiqor.storage import run_record as records
from critiqor.storage.audit.witness_socket import ask_statement, witness_address
from critiqor.storage.journal import restore_journal
from critiqor.storage.seals.diagnosis_seal import write_diagnosis
from critiqor.storage.seals.evidence_seal import SealedEvidence, seal_evidence
from critiqor.storage.seals.record_digest import record_digest
from critiqor.storage.seals.signatures import evidence_message
from critiqor.storage.seals.signing_key import sign

if TYPE_CHECKING:
    from critiqor.policy.contract import Contract

Observer = Callable[[Event], None]

LEAVING_SECONDS = 3.0
"""How long finalizing waits for recorders that are about to leave a segment."""


class _Finalized(NamedTuple):
    sealed: SealedEvidence
    diagnosis: Diagnosis


def finalize(
    run: Run | None,
    store: RunStore,
    observe: Observer | None = None,
    contracts: Sequence[Contract] = (),
    slot: str | None = None,
) -> Run:
    """Seal and diagnose a session (default: the active one of the slot), and complete its record. Return its run.

    `observe` is called with every event while it is sealed. `contracts` of a policy are checked by the diagnosis.
    """
    run = begin_finalization(run, store, slot)
    for earlier in unfinished_before(run):
        _finalize(earlier, None, contracts)
    _finalize(run, observe, contracts)
    discard_reserved(run)
    return run


def _finalize(run: Run, observe: Observer | None, contracts: Sequence[Contract]) -> None:
    paths = run.paths
    _fix_end(run)
    with exclusive(paths.finalize_lock_path(run.id)):
        if run.head().seal is None:
            record = run.record()
            finalized = _seal_and_diagnose(run, record, observe, contracts)
            with exclusive(paths.lock_path):
                _refuse_aborted(run.head())
                records.keep_visibility(paths, record)
                moment = now_ms()
                records.change_state(record, "COMPLETED", moment)
                _conclude(record, finalized, moment)
                records.save_completed(paths, record, finalized.sealed.events_start, finalized.sealed.events_end)
        with exclusive(paths.lock_path):
            free_slot(paths, run.head())
    _forget_redaction_key(run)


def _fix_end(run: Run) -> None:
    """Fix the end of the evidence of a segment that the recording has left; agent runs in it may end before that."""
    if run.head().status not in records.ACTIVE or run.head().cut is not None:
        return
    until = time.monotonic() + LEAVING_SECONDS
    while not have_recorders_left(run) and time.monotonic() < until:
        time.sleep(0.05)
    with exclusive(run.paths.lock_path):
        record = run.record()
        if record.status == "MONITORING":
            leave_segment(record)
        if record.status == "FINALIZING" and record.cut is None:
            set_cut(run.paths, record)
            records.save(run.paths, record)


def begin_finalization(run: Run | None, store: RunStore, slot: str | None = None) -> Run:
    """Begin to finalize a session (default: the active one), unless it is FINALIZING or COMPLETED. Return its run."""
    paths = store.paths
    with exclusive(paths.lock_path):
        run = run or store.run(active_run_id(paths, "finalize", slot))
        head = run.head()
        if not head.has_forged_status:
            _refuse_aborted(head)
        if head.status in ("IDLE", "MONITORING") or head.has_forged_status:
            record = run.record()
            records.change_state(record, "FINALIZING", now_ms())
            set_cut(paths, record)
            records.save(paths, record)
            holder = active_record(paths, record.slot)
            if holder is None or holder.run_id == run.id:
                write_slot(paths, record)
        return run


def set_cut(paths: SessionPaths, record: SessionRecord) -> None:
    """Fix the end of the evidence of a run: the current end of its journal, lifecycle events and timeline.

    If its monitor is running, what it knows about the records up to this end is saved with it.
    """
    address = _witness_address(record)
    before = ask_statement(address) if address else None
    journal = paths.journal_path(record.run_id)
    if not journal.exists():
        restore_journal(paths.evidence_summary_path(record.run_id), journal)
    size = journal.stat().st_size if journal.exists() else 0
    timeline = paths.timeline_path(record.run_id)
    timeline_bytes = timeline.stat().st_size if timeline.is_file() else None
    record.cut = Cut(
        journal_bytes=size,
        lifecycle_events=len(record.event_log),
        timeline_bytes=timeline_bytes,
        is_running=may_be_running(paths, record) if record.owner is not None else None,
        fixed_at=iso_from_ms(now_ms()),
    )
    after = ask_statement(address) if address and before is not None else None
    if before is not None and after is not None:
        required = {recorder.writer: recorder.written for recorder in before.recorders}
        write_json(paths.statement_path(record.run_id), msgspec.structs.replace(after, required=required))


def _witness_address(record: SessionRecord) -> str | None:
    """Return the address of the socket of the monitor, or of the latest guard."""
    events = (event for event in reversed(record.event_log) if isinstance(event, dict))
    return next((address for event in events if (address := witness_address(event)) is not None), None)


def seal_aborted(run: Run) -> None:
    """Seal and diagnose the recorded events of an aborted run."""
    paths = run.paths
    with exclusive(paths.finalize_lock_path(run.id)):
        with exclusive(paths.lock_path):
            record = run.record()
            if record.cut is None:
                set_cut(paths, record)
                records.save(paths, record)
        if record.seal is None:
            finalized = _seal_and_diagnose(run, record)
            with exclusive(paths.lock_path):
                records.keep_visibility(paths, record)
                _conclude(record, finalized, now_ms())
                records.save(paths, record)
    _forget_redaction_key(run)


def _seal_and_diagnose(
    run: Run, record: SessionRecord, observe: Observer | None = None, contracts: Sequence[Contract] = ()
) -> _Finalized:
    # Imported here, so that creating a session and appending to it loads no detector.
    from critiqor.run.diagnosis import RunDiagnosis

    take_permanent_lock(run.paths.session_lock_path(run.id))
    sealed_bytes = record.cut.timeline_bytes if record.cut is not None else None
    before = list(read_carried(run.paths.carried_path(run.id))) if record.continues is not None else []
    diagnoser = RunDiagnosis(run.timeline_path, sealed_bytes, contracts, before)
    observed = diagnoser.observe if observe is None else _both(diagnoser.observe, observe)
    following = successor_of(run) if record.segment is not None else None
    if following is not None:
        carried = CarriedEvents()
        for event in before:
            carried.add(event)
        observed = _both(observed, carried.add)
    sealed = seal_evidence(run.paths, record, run.redactor(), observed)
    if following is not None:
        with suppress(OSError):  # the next segment can be diagnosed without it, and this one must be sealed
            carried.write(run.paths.carried_path(following.id))
    diagnosis = diagnoser.conclude(run.id, sealed.digest, sealed.coverage, run.evidence_path)
    write_diagnosis(run.diagnosis_path, diagnosis)
    return _Finalized(sealed, diagnosis)


def _both(one: Observer, other: Observer) -> Observer:
    def observe(event: Event) -> None:
        one(event)
        other(event)

    return observe


def _conclude(record: SessionRecord, finalized: _Finalized, moment: int) -> None:
    now, sealed = iso_from_ms(moment), finalized.sealed
    record.timestamps = msgspec.structs.replace(record.timestamps, finalized_at=now)
    record.seal = Seal(sealed.digest, sealed.size, sealed.metrics.total_events, now)
    fixed = record_digest(record)
    signed = sign(evidence_message(record.run_id, sealed.digest, fixed))
    record.seal = msgspec.structs.replace(record.seal, record=fixed, **signed._asdict())
    records.set_diagnosis(record, finalized.diagnosis)


def _refuse_aborted(head: RunHead) -> None:
    if head.status == "ABORTED":
        fix = f"critiqor diagnose {head.run_id}"
        raise NoActiveSessionError(f"{head.run_id} was aborted and cannot be finalized", fix=fix)


def _forget_redaction_key(run: Run) -> None:
    """Delete the redaction key: it is no longer needed, and could be used to test guesses against the tags."""
    run.paths.redaction_key_path(run.id).unlink(missing_ok=True)
