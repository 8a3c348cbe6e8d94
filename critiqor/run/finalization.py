"""Finalizing a session: seal its evidence, diagnose it and complete its record.

A finalize that is killed leaves the session FINALIZING and can be repeated: the end of the evidence was fixed when it
began, so every attempt seals the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from critiqor.model import Diagnosis, Event, Seal, SessionRecord, iso_from_ms, now_ms
from critiqor.run.lifecycle import (
    RunReference,
    change_state,
    refuse_aborted,
    set_cut,
    start_finalizing,
)
from critiqor.run.store import Run, RunStore
from critiqor.storage import exclusive, hold_session_document, write_json
from critiqor.storage import run_record as records
from critiqor.storage.seal import SealedEvidence, seal_evidence

Observer = Callable[[Event], None]


class _Finalized(NamedTuple):
    sealed: SealedEvidence
    diagnosis: Diagnosis


def finalize(run: RunReference | None, store: RunStore, observe: Observer | None = None) -> Run:
    """Seal and diagnose a session, or the active one, and complete its record. Return its run."""
    handle = start_finalizing(run, store)
    paths = store.paths
    with exclusive(paths.finalize_lock_path(handle.id)):
        if handle.head().status != "COMPLETED":
            record = handle.record()
            finalized = _seal_and_diagnose(handle, record, observe)
            with exclusive(paths.lock_path):
                refuse_aborted(handle.head())
                records.keep_visibility(paths, record)
                moment = now_ms()
                change_state(record, "COMPLETED", moment)
                _conclude(record, finalized, moment)
                records.save_completed(paths, record, finalized.sealed.events_start, finalized.sealed.events_end)
        with exclusive(paths.lock_path):
            records.free_slot(paths, handle.id)
    _forget_redaction_key(handle)
    return handle


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


def _seal_and_diagnose(run: Run, record: SessionRecord, observe: Observer | None = None) -> _Finalized:
    # Imported here, so that creating a session and appending to it loads no detector.
    from critiqor.run.diagnosis import RunDiagnosis

    hold_session_document(run.paths.session_lock_path(run.id))
    sealed_bytes = record.cut.timeline_bytes if record.cut is not None else None
    diagnoser = RunDiagnosis(run.timeline_path, sealed_bytes)
    observed = diagnoser.observe if observe is None else _both(diagnoser.observe, observe)
    sealed = seal_evidence(run.paths, record, run.redactor(), observed)
    diagnosis = diagnoser.conclude(run.id, sealed.digest, sealed.coverage)
    write_json(run.diagnosis_path, diagnosis)
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
    records.conclude(record, finalized.diagnosis)


def _forget_redaction_key(run: Run) -> None:
    """Delete the redaction key: it is no longer needed, and could be used to test guesses against the tags."""
    run.paths.redaction_key_path(run.id).unlink(missing_ok=True)
