"""The session: the state machine of a run, from the first moment to the seal.

    IDLE → MONITORING → FINALIZING → COMPLETED
                 └────────────┴────→ ABORTED

Every transition is written into `runs/<run_id>.json` before anything depends on it, under one lock per runs folder.
A finalize that dies half-way leaves the session FINALIZING and can be repeated: where the evidence ends was decided
when it began, so every attempt seals the same bytes.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from critiqor import records
from critiqor.diagnosis import Examination
from critiqor.errors import ActiveSessionError, NoActiveSessionError, UsageError
from critiqor.evidence import (
    SealedEvidence,
    adopt_session_document,
    empty_evidence,
    merged_events,
    normalize_plugin_event,
    read_coverage,
    read_sealed_events,
    seal_evidence,
    write_live_evidence,
)
from critiqor.model import (
    Diagnosis,
    Event,
    EventType,
    Metadata,
    Owner,
    Seal,
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
from critiqor.redaction import Redactor
from critiqor.storage import SessionPaths, exclusive, hold_session_document, paths_for, write_bytes, write_json
from critiqor.storage.paths import FOLDER_MODE

__all__ = [
    "SessionPaths",
    "abort_session",
    "append_event_to_run",
    "create_session",
    "diagnose_run",
    "finalize_session",
    "iterate_evidence",
    "load_active_session",
    "load_record",
    "load_record_head",
    "load_session_evidence_events",
    "normalize_plugin_event",
    "owner_is_alive",
    "paths_for",
    "refresh_live_evidence",
    "request_finalize",
    "write_json",
]

DEFAULT_RUNS_DIR = "runs"
SUPERVISOR = "0supervisor"
"""The writer of lifecycle events; sorts before any recorder within the same millisecond."""


def create_session(
    *,
    runs_dir: str | Path = DEFAULT_RUNS_DIR,
    agent_id: str = Metadata().agent_id,
    tenant_id: str = Metadata().tenant_id,
    framework: str = Metadata().framework,
    visibility: str = Metadata().visibility,
    benchmark_id: str = Metadata().benchmark_id,
    difficulty_tier: str = Metadata().difficulty_tier,
) -> dict[str, Any]:
    """Start a session: claim the active slot and write the record of a new run, MONITORING. Returns the record.

    Raises `ActiveSessionError` while another session holds the slot.
    """
    try:
        named = {"agent_id": agent_id, "tenant_id": tenant_id, "framework": framework, "visibility": visibility}
        compared = {"benchmark_id": benchmark_id, "difficulty_tier": difficulty_tier}
        metadata = msgspec.convert({**named, **compared}, Metadata)
    except msgspec.ValidationError as error:
        raise UsageError(f"the session cannot be created: {error}") from error
    paths = paths_for(runs_dir)
    with exclusive(paths.lock_path):
        _refuse_second_session(paths)
        run_id = records.next_run_id(paths)
        moment = now_ms()
        now = iso_from_ms(moment)
        record = SessionRecord(
            run_id=run_id,
            status="IDLE",
            lifecycle=[Transition("IDLE", now)],
            timestamps=Timestamps(created_at=now, started_at=now),
            metadata=metadata,
            owner=_this_process(),
        )
        _move(record, "MONITORING", moment)
        paths.run_folder(run_id).mkdir(mode=FOLDER_MODE, exist_ok=True)
        write_bytes(paths.redaction_key_path(run_id), _new_key())
        write_bytes(paths.evidence_summary_path(run_id), empty_evidence(run_id))
        records.save(paths, record)
        records.write_slot(paths, record)
    return _as_dict(record)


def load_active_session(runs_dir: str | Path = DEFAULT_RUNS_DIR) -> dict[str, Any] | None:
    """The record of the session that holds the active slot, or None: only MONITORING and FINALIZING are active."""
    record = records.active_record(paths_for(runs_dir))
    return None if record is None else _as_dict(record)


def append_event_to_run(
    run_id: str, event: Mapping[str, Any], *, runs_dir: str | Path = DEFAULT_RUNS_DIR
) -> dict[str, Any] | None:
    """Write a lifecycle event into the run record. Returns it as written, or None once the run takes no more events.

    `event` needs an `event_type`; `payload`, `status` and `error` are optional; anything else goes into the payload.
    """
    paths = paths_for(runs_dir)
    with exclusive(paths.lock_path):
        # The head is enough to know, and a finished record can be large.
        if records.load_head(paths, run_id)["status"] != "MONITORING":
            return None
        record = records.load(paths, run_id)
        written = _append(record, event)
        records.save(paths, record)
        return written


def request_finalize(run_id: str | None = None, *, runs_dir: str | Path = DEFAULT_RUNS_DIR) -> dict[str, Any]:
    """Stamp a session FINALIZING, in its record and in the active slot, and decide where its evidence ends.

    Without a run id, the active session. A session that is FINALIZING or COMPLETED already is left as it is. Returns
    the head of the record.
    """
    paths = paths_for(runs_dir)
    with exclusive(paths.lock_path):
        run_id = run_id or _active_run_id(paths, "finalize")
        status = records.load_head(paths, run_id)["status"]
        if status == "ABORTED":
            fix = f"critiqor diagnose {run_id}"
            raise NoActiveSessionError(f"{run_id} was aborted and cannot be finalized", fix=fix)
        if status == "MONITORING":
            record = records.load(paths, run_id)
            _move(record, "FINALIZING", now_ms())
            _decide_cut(paths, record)
            records.save(paths, record)
            records.write_slot(paths, record)
        return records.load_head(paths, run_id)


def finalize_session(run_id: str | None = None, *, runs_dir: str | Path = DEFAULT_RUNS_DIR) -> dict[str, Any]:
    """Seal the evidence of a session, diagnose it and complete its record. Without a run id, the active session.

    Returns the completed record without its event log, which is in the file and can be very large. Can be called
    again, from several shells at once, and after a kill: the evidence comes out the same, byte for byte.
    """
    paths = paths_for(runs_dir)
    run_id = request_finalize(run_id, runs_dir=runs_dir)["run_id"]
    with exclusive(paths.finalize_lock_path(run_id)):
        if records.load_head(paths, run_id)["status"] != "COMPLETED":
            record = records.load(paths, run_id)
            sealed, diagnosis = _seal_and_diagnose(paths, record)
            with exclusive(paths.lock_path):
                moment = now_ms()
                _move(record, "COMPLETED", moment)
                _conclude(record, sealed, diagnosis, moment)
                records.save_completed(paths, record, sealed.events_start, sealed.events_end)
                records.free_slot(paths, run_id)
    # Nothing more is redacted in this run, and without the key a tag can no longer be tried against a guess.
    paths.redaction_key_path(run_id).unlink(missing_ok=True)
    return _without_event_log(paths, run_id)


def abort_session(
    run_id: str | None = None, *, reason: str = "aborted on request", runs_dir: str | Path = DEFAULT_RUNS_DIR
) -> dict[str, Any]:
    """Stamp a session ABORTED and free the active slot. What was recorded is kept and can still be diagnosed."""
    paths = paths_for(runs_dir)
    with exclusive(paths.lock_path):
        run_id = run_id or _active_run_id(paths, "abort")
        if records.load_head(paths, run_id)["status"] == "COMPLETED":
            raise NoActiveSessionError(f"{run_id} is completed", fix=f"critiqor show {run_id}")
        record = records.load(paths, run_id)
        if record.status != "ABORTED":
            _move(record, "ABORTED", now_ms(), reason=reason)
            records.save(paths, record)
        records.free_slot(paths, run_id)
    return _as_dict(record)


def diagnose_run(run_id: str, *, runs_dir: str | Path = DEFAULT_RUNS_DIR) -> dict[str, Any]:
    """Diagnose a run again from its sealed evidence, which stays as it is; an aborted run is sealed first."""
    paths = paths_for(runs_dir)
    head = records.load_head(paths, run_id)
    if head["status"] in records.ACTIVE:
        raise NoActiveSessionError(f"{run_id} is not finalized yet", fix="critiqor finalize")
    if head["seal"] is None:
        return cast("dict[str, Any]", msgspec.to_builtins(_seal_aborted(paths, run_id)))
    document = paths.evidence_summary_path(run_id)
    examination = Examination()
    for event in read_sealed_events(document):
        examination.observe(event)
    now = iso_from_ms(now_ms())
    diagnosis = examination.conclude(run_id, head["seal"]["digest"], read_coverage(document), now)
    write_json(paths.diagnosis_path(run_id), diagnosis)
    return cast("dict[str, Any]", msgspec.to_builtins(diagnosis))


def load_session_evidence_events(run_id: str, *, runs_dir: str | Path = DEFAULT_RUNS_DIR) -> list[dict[str, Any]]:
    """All events of a run, normalised and in true order, whether it is sealed yet or not."""
    return [msgspec.to_builtins(event) for event in iterate_evidence(run_id, runs_dir=runs_dir)]


def iterate_evidence(run_id: str, *, runs_dir: str | Path = DEFAULT_RUNS_DIR) -> Iterator[Event]:
    """The events of a run one by one: of the sealed evidence where there is one, else as they would be sealed now."""
    paths = paths_for(runs_dir)
    if records.load_head(paths, run_id)["seal"] is not None:
        return read_sealed_events(paths.evidence_summary_path(run_id))
    adopt_session_document(paths, run_id)
    return merged_events(paths, records.load(paths, run_id), _redactor(paths, run_id))


def load_record(run_id: str, *, runs_dir: str | Path = DEFAULT_RUNS_DIR) -> dict[str, Any]:
    """The whole run record, event log included."""
    return _as_dict(records.load(paths_for(runs_dir), run_id))


def load_record_head(run_id: str, *, runs_dir: str | Path = DEFAULT_RUNS_DIR) -> dict[str, Any]:
    """A run record without its diagnosis and event log: all that listings need, however large the run is."""
    return records.load_head(paths_for(runs_dir), run_id)


def refresh_live_evidence(run_id: str, *, runs_dir: str | Path = DEFAULT_RUNS_DIR) -> None:
    """Bring session.json of a run that is not sealed up to its journal, for when its recorder was killed."""
    paths = paths_for(runs_dir)
    if paths.journal_path(run_id).exists() and not paths.session_lock_path(run_id).exists():
        write_live_evidence(paths, run_id)


def owner_is_alive(record: Mapping[str, Any]) -> bool:
    """Whether the process that created a session still runs: the same pid with the same start time."""
    import psutil

    owner = record.get("owner")
    if not owner:
        return False
    try:
        started = float(psutil.Process(owner["pid"]).create_time())
    except psutil.Error:
        return False
    return bool(abs(started - owner["started_at"]) < 1.0)


def _refuse_second_session(paths: SessionPaths) -> None:
    record = records.active_record(paths)
    if record is None:
        return
    state = f"{record.run_id} is {record.status}"
    if not owner_is_alive(_as_dict(record)):
        state += ", but the process that started it is gone"
    raise ActiveSessionError(
        f"a session is active in this runs folder: {state}",
        fix="critiqor finalize   (or: critiqor abort, or another --runs-dir)",
    )


def _active_run_id(paths: SessionPaths, verb: str) -> str:
    record = records.active_record(paths)
    if record is None:
        raise NoActiveSessionError(f"there is no active session to {verb}", fix="critiqor runs")
    return record.run_id


def _this_process() -> Owner:
    import psutil

    return Owner(pid=os.getpid(), started_at=psutil.Process().create_time())


def _new_key() -> bytes:
    return secrets.token_hex(32).encode()


def _move(record: SessionRecord, state: Status, moment: int, **details: Any) -> None:
    previous, record.status = record.status, state
    record.lifecycle.append(Transition(state, iso_from_ms(moment)))
    payload = {"from": previous, "to": state, **details}
    _append(record, {"event_type": EventType.STATE_TRANSITION, "payload": payload}, moment)


_ENVELOPE = frozenset({*Event.__struct_fields__, "type"})


def _append(record: SessionRecord, event: Mapping[str, Any], moment: int | None = None) -> dict[str, Any]:
    moment = moment or ms_from_iso(str(event.get("timestamp", ""))) or now_ms()
    kind = str(event.get("event_type") or event.get("type") or "unknown")
    payload = dict(event.get("payload") or {}) | {name: event[name] for name in event if name not in _ENVELOPE}
    written = Event(
        event_id=event_id_for(moment, SUPERVISOR, len(record.event_log) + 1),
        event_type=kind,
        raw_event_type=kind,
        timestamp=iso_from_ms(moment),
        source_layer="supervisor",
        status=str(event.get("status") or ("error" if kind == EventType.ERROR else "ok")),
        error=event.get("error"),
        duration_ms=event.get("duration_ms"),
        payload=payload,
    )
    record.event_log.append(msgspec.to_builtins(written))
    return cast("dict[str, Any]", record.event_log[-1])


def _decide_cut(paths: SessionPaths, record: SessionRecord) -> None:
    adopt_session_document(paths, record.run_id)
    journal = paths.journal_path(record.run_id)
    size = journal.stat().st_size if journal.exists() else 0
    record.cut = Cut(journal_bytes=size, lifecycle_events=len(record.event_log))


def _redactor(paths: SessionPaths, run_id: str) -> Redactor:
    path = paths.redaction_key_path(run_id)
    if not path.exists():
        write_bytes(path, _new_key())
    return Redactor(path.read_bytes())


def _seal_and_diagnose(paths: SessionPaths, record: SessionRecord) -> tuple[SealedEvidence, Diagnosis]:
    hold_session_document(paths.session_lock_path(record.run_id))
    examination = Examination()
    sealed = seal_evidence(paths, record, _redactor(paths, record.run_id), examination.observe)
    diagnosis = examination.conclude(record.run_id, sealed.digest, sealed.coverage, iso_from_ms(now_ms()))
    write_json(paths.diagnosis_path(record.run_id), diagnosis)
    return sealed, diagnosis


def _seal_aborted(paths: SessionPaths, run_id: str) -> Diagnosis:
    with exclusive(paths.finalize_lock_path(run_id)), exclusive(paths.lock_path):
        record = records.load(paths, run_id)
        if record.cut is None:
            _decide_cut(paths, record)
            records.save(paths, record)
        sealed, diagnosis = _seal_and_diagnose(paths, record)
        _conclude(record, sealed, diagnosis, now_ms())
        records.save(paths, record)
    return diagnosis


def _conclude(record: SessionRecord, sealed: SealedEvidence, diagnosis: Diagnosis, moment: int) -> None:
    now = iso_from_ms(moment)
    record.timestamps = msgspec.structs.replace(record.timestamps, finalized_at=now)
    record.seal = Seal(sealed.digest, sealed.size, sealed.metrics.total_events, now)
    record.headline = diagnosis.headline
    record.diagnosis = diagnosis
    record.trust_score = diagnosis.trust_score
    record.confidence_score = diagnosis.confidence_score
    record.failure_analysis = diagnosis.failure_analysis
    record.causal_graph = diagnosis.causal_graph
    record.cost_analysis = diagnosis.cost_analysis


def _without_event_log(paths: SessionPaths, run_id: str) -> dict[str, Any]:
    head = records.load_head(paths, run_id)
    diagnosis = msgspec.json.decode(paths.diagnosis_path(run_id).read_bytes())
    parts = ("failure_analysis", "causal_graph", "cost_analysis")
    return {**head, "diagnosis": diagnosis, **{name: diagnosis[name] for name in parts}}


def _as_dict(record: SessionRecord) -> dict[str, Any]:
    return cast("dict[str, Any]", msgspec.to_builtins(record))
