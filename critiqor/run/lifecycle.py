"""The session: the state machine of a run, from the first moment to the seal.

    IDLE → MONITORING → FINALIZING → COMPLETED
                 └────────────┴────→ ABORTED

A run that is imported was never monitored and begins with FINALIZING.

Every transition is written into `runs/<run_id>.json` before anything depends on it, under one lock per runs folder.
A finalize that dies half-way leaves the session FINALIZING and can be repeated: where the evidence ends was decided
when it began, so every attempt seals the same bytes.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from critiqor.errors import ActiveSessionError, BrokenRecordError, NoActiveSessionError, UsageError
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
from critiqor.storage import (
    AtomicFile,
    SessionPaths,
    exclusive,
    hold_session_document,
    paths_for,
    write_bytes,
    write_json,
)
from critiqor.storage import run_record as records
from critiqor.storage.event_merge import merged_events
from critiqor.storage.normalization import normalize_plugin_event
from critiqor.storage.paths import FOLDER_MODE
from critiqor.storage.record_filter import RecordFilter
from critiqor.storage.redaction import Redactor
from critiqor.storage.seal import SealedEvidence, seal_evidence
from critiqor.storage.session_document import (
    empty_document,
    read_sealed_events,
    restore_journal,
    write_live_document,
)

if TYPE_CHECKING:
    from critiqor.importers import ImportedTrace

__all__ = [
    "SessionPaths",
    "abort_session",
    "append_event_to_run",
    "complete_session",
    "create_attached_session",
    "create_session",
    "evidence_events",
    "finalize_session",
    "import_run",
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
Run = str | Mapping[str, Any]
"""A run is named by its id or by its record."""
SUPERVISOR = "0supervisor"
"""The writer of lifecycle events; sorts before any recorder within the same millisecond."""


def create_session(
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
    named = {"agent_id": agent_id, "tenant_id": tenant_id, "framework": framework, "visibility": visibility}
    metadata = _metadata(**named, benchmark_id=benchmark_id, difficulty_tier=difficulty_tier)
    return _start(paths_for(runs_dir), metadata)


def create_attached_session(runs_dir: str | Path = DEFAULT_RUNS_DIR, **metadata: str) -> dict[str, Any]:
    """The same for an OpenClaw that runs by itself: no process owns the session, so it is not left behind by any."""
    return _start(paths_for(runs_dir), _metadata(**metadata), owned=False)


def _start(paths: SessionPaths, metadata: Metadata, *, owned: bool = True) -> dict[str, Any]:
    with exclusive(paths.lock_path):
        _refuse_second_session(paths)
        moment = now_ms()
        record = _new_record(paths, metadata, moment)
        record.owner = record.owner if owned else None
        record.timestamps = msgspec.structs.replace(record.timestamps, started_at=iso_from_ms(moment))
        _move(record, "MONITORING", moment)
        write_bytes(paths.evidence_summary_path(record.run_id), empty_document(record.run_id))
        records.save(paths, record)
        records.write_slot(paths, record)
    return _as_dict(record)


def import_run(trace: ImportedTrace, runs_dir: str | Path = DEFAULT_RUNS_DIR, **metadata: str) -> dict[str, Any]:
    """Make a run of one that was recorded elsewhere: seal its events, diagnose them and complete the record.

    It needs no active slot and takes none, so that a recording that goes on beside it is not disturbed. `metadata`
    takes the names that `create_session` takes. Returns the record without its event log.
    """
    paths = paths_for(runs_dir)
    usual = {"agent_id": "imported_agent", "benchmark_id": "imported"}
    described = _metadata(**{**usual, **metadata, "framework": "imported"})
    with exclusive(paths.lock_path):
        moment = now_ms()
        record = _new_record(paths, described, moment)
        told = {"format": trace.format, "trace_id": trace.trace_id, "notes": trace.notes}
        safe = RecordFilter(_redactor(paths, record.run_id)).supervisor_event(told)
        _append(record, {"event_type": EventType.RUN_IMPORTED, "payload": safe}, moment)
        with AtomicFile(paths.journal_path(record.run_id)) as journal:
            for event in trace.events:
                journal.write(msgspec.json.encode(event) + b"\n")
        _move(record, "FINALIZING", moment)
        _decide_cut(paths, record)
        records.save(paths, record)
    return complete_session(record.run_id, runs_dir)


def load_active_session(runs_dir: str | Path = DEFAULT_RUNS_DIR) -> dict[str, Any] | None:
    """The record of the session that holds the active slot, or None: only MONITORING and FINALIZING are active."""
    record = records.active_record(paths_for(runs_dir))
    return None if record is None else _as_dict(record)


def append_event_to_run(
    run: Run, event: Mapping[str, Any], runs_dir: str | Path = DEFAULT_RUNS_DIR
) -> dict[str, Any] | None:
    """Write a lifecycle event into the run record. Returns it as written, or None once the run takes no more events.

    `event` needs an `event_type`; `payload`, `status` and `error` are optional; anything else goes into the payload.
    """
    paths, run_id = paths_for(runs_dir), run_id_of(run)
    with exclusive(paths.lock_path):
        # The head is enough to know, and a finished record can be large.
        if records.load_head(paths, run_id)["status"] != "MONITORING":
            return None
        record = records.load(paths, run_id)
        written = _append(record, RecordFilter(_redactor(paths, run_id)).supervisor_event(event))
        records.save(paths, record)
        return written


def request_finalize(run: Run | None = None, runs_dir: str | Path = DEFAULT_RUNS_DIR) -> dict[str, Any]:
    """Stamp a session FINALIZING, in its record and in the active slot, and decide where its evidence ends.

    Without a run, the active session. A session that is FINALIZING or COMPLETED already is left as it is. Returns the
    head of the record.
    """
    paths = paths_for(runs_dir)
    with exclusive(paths.lock_path):
        run_id = run_id_of(run) if run else _active_run_id(paths, "finalize")
        head = records.load_head(paths, run_id)
        _refuse_aborted(head)
        if head["status"] == "MONITORING":
            record = records.load(paths, run_id)
            _move(record, "FINALIZING", now_ms())
            _decide_cut(paths, record)
            records.save(paths, record)
            holder = records.active_record(paths)
            if holder is None or holder.run_id == run_id:
                records.write_slot(paths, record)
        return records.load_head(paths, run_id)


def finalize_session(run: Run | None = None, runs_dir: str | Path = DEFAULT_RUNS_DIR) -> dict[str, Any]:
    """Seal the evidence of a session, diagnose it and complete its record, which is returned whole.

    Without a run, the active session. Can be called again, from several shells at once, and after a kill: the evidence
    comes out the same, byte for byte.
    """
    run_id = complete_session(run, runs_dir)["run_id"]
    return cast("dict[str, Any]", msgspec.json.decode(paths_for(runs_dir).run_path(run_id).read_bytes()))


def complete_session(
    run: Run | None = None,
    runs_dir: str | Path = DEFAULT_RUNS_DIR,
    observe: Callable[[Event], None] | None = None,
) -> dict[str, Any]:
    """The same as `finalize_session`, but the record comes without its event log, which can be very large.

    `observe` is handed every event while it is sealed, for whoever wants to tell how far it got.
    """
    paths = paths_for(runs_dir)
    run_id = request_finalize(run, runs_dir)["run_id"]
    with exclusive(paths.finalize_lock_path(run_id)):
        if records.load_head(paths, run_id)["status"] != "COMPLETED":
            record = records.load(paths, run_id)
            sealed, diagnosis = _seal_and_diagnose(paths, record, observe)
            with exclusive(paths.lock_path):
                _refuse_aborted(records.load_head(paths, run_id))
                records.keep_visibility(paths, record)
                moment = now_ms()
                _move(record, "COMPLETED", moment)
                _conclude(record, sealed, diagnosis, moment)
                records.save_completed(paths, record, sealed.events_start, sealed.events_end)
        with exclusive(paths.lock_path):
            records.free_slot(paths, run_id)
    # Nothing more is redacted in this run, and without the key a tag can no longer be tried against a guess.
    paths.redaction_key_path(run_id).unlink(missing_ok=True)
    concluded = msgspec.to_builtins(records.load_diagnosis(paths, run_id))
    parts = ("failure_analysis", "causal_graph", "cost_analysis")
    return {**records.load_head(paths, run_id), "diagnosis": concluded, **{name: concluded[name] for name in parts}}


def abort_session(
    run: Run | None = None, runs_dir: str | Path = DEFAULT_RUNS_DIR, reason: str = "aborted on request"
) -> dict[str, Any]:
    """Stamp a session ABORTED and free the active slot. What was recorded is kept and can still be diagnosed."""
    paths = paths_for(runs_dir)
    with exclusive(paths.lock_path):
        run_id = run_id_of(run) if run else _active_run_id(paths, "abort")
        if records.load_head(paths, run_id)["status"] == "COMPLETED":
            raise NoActiveSessionError(f"{run_id} is completed", fix=f"critiqor show {run_id}")
        record = records.load(paths, run_id)
        if record.status != "ABORTED":
            details = RecordFilter(_redactor(paths, run_id)).supervisor_event({"reason": reason})
            _move(record, "ABORTED", now_ms(), **details)
            records.save(paths, record)
        records.free_slot(paths, run_id)
    return _as_dict(record)


def load_session_evidence_events(run: Run, runs_dir: str | Path = DEFAULT_RUNS_DIR) -> list[dict[str, Any]]:
    """All events of a run, normalised and in true order, whether it is sealed yet or not."""
    return [msgspec.to_builtins(event) for event in evidence_events(run_id_of(run), runs_dir)]


def evidence_events(run_id: str, runs_dir: str | Path = DEFAULT_RUNS_DIR) -> Iterator[Event]:
    """The same, one by one: of the sealed evidence where there is one, else as they would be sealed now."""
    paths = paths_for(runs_dir)
    journal, document = paths.journal_path(run_id), paths.evidence_summary_path(run_id)
    if not paths.run_path(run_id).exists() and document.exists():
        return _adopted_events(document, [])
    if records.load_head(paths, run_id)["seal"] is not None:
        return read_sealed_events(document)
    record = records.load(paths, run_id)
    if journal.exists():
        return merged_events(journal, record.event_log, _redactor(paths, run_id))
    return _adopted_events(document, record.event_log)


def _adopted_events(document: Path, lifecycle: list[Any]) -> Iterator[Event]:
    """Events that stand in session.json alone; its recorder may still be writing it, so it is left as it is."""
    with tempfile.TemporaryDirectory() as folder:
        journal = Path(folder) / "journal.jsonl"
        restore_journal(document, journal)
        yield from merged_events(journal, lifecycle, Redactor(_new_key()))


def load_record(run_id: str, runs_dir: str | Path = DEFAULT_RUNS_DIR) -> dict[str, Any]:
    """The whole run record, event log included."""
    return _as_dict(records.load(paths_for(runs_dir), run_id))


def load_record_head(run_id: str, runs_dir: str | Path = DEFAULT_RUNS_DIR) -> dict[str, Any]:
    """A run record without its diagnosis and event log: all that listings need, however large the run is."""
    return records.load_head(paths_for(runs_dir), run_id)


def refresh_live_evidence(run_id: str, runs_dir: str | Path = DEFAULT_RUNS_DIR) -> None:
    """Bring session.json of a run that is not sealed up to its journal, for when its recorder was killed."""
    paths = paths_for(runs_dir)
    # Whoever finalizes holds this lock before it takes the one of the document for good.
    with exclusive(paths.finalize_lock_path(run_id)):
        if paths.journal_path(run_id).exists() and not paths.session_lock_path(run_id).exists():
            write_live_document(paths, run_id)


def owner_is_alive(record: Mapping[str, Any]) -> bool:
    """Whether the process that created a session still runs: the same pid with the same start time."""
    import psutil

    owner = record.get("owner")
    if not owner:
        return False
    try:
        process = psutil.Process(owner["pid"])
        return process.status() != psutil.STATUS_ZOMBIE and abs(process.create_time() - owner["started_at"]) < 1.0
    except (psutil.Error, ValueError, OverflowError):
        return False


def run_id_of(run: Run) -> str:
    """The id of a run that is named by its id or by its record."""
    return run if isinstance(run, str) else str(run["run_id"])


def _metadata(**named: str) -> Metadata:
    unknown = sorted(named.keys() - set(Metadata.__struct_fields__))
    if unknown:
        raise UsageError(f"a run does not take: {', '.join(unknown)}")
    try:
        metadata = msgspec.convert(named, Metadata)
        msgspec.json.encode(metadata)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise UsageError(f"the session cannot be created: {error}") from error
    return metadata


def _new_record(paths: SessionPaths, metadata: Metadata, moment: int) -> SessionRecord:
    """A run that has a number, a folder and a key, and no record on disk yet. The caller holds the folder's lock."""
    run_id = records.next_run_id(paths)
    now = iso_from_ms(moment)
    paths.run_folder(run_id).mkdir(mode=FOLDER_MODE, exist_ok=True)
    write_bytes(paths.redaction_key_path(run_id), _new_key())
    return SessionRecord(
        run_id=run_id,
        status="IDLE",
        lifecycle=[Transition("IDLE", now)],
        timestamps=Timestamps(created_at=now),
        metadata=metadata,
        owner=_this_process(),
    )


def _refuse_second_session(paths: SessionPaths) -> None:
    record = records.active_record(paths)
    if record is None:
        return
    state = f"{record.run_id} is {record.status}"
    if record.owner is not None and not owner_is_alive(_as_dict(record)):
        state += ", but the process that started it is gone"
    raise ActiveSessionError(
        f"a session is active in this runs folder: {state}",
        fix="critiqor finalize   (or: critiqor abort, or another --runs-dir)",
    )


def _refuse_aborted(head: Mapping[str, Any]) -> None:
    if head["status"] == "ABORTED":
        fix = f"critiqor diagnose {head['run_id']}"
        raise NoActiveSessionError(f"{head['run_id']} was aborted and cannot be finalized", fix=fix)


def _active_run_id(paths: SessionPaths, verb: str) -> str:
    head = records.slot_head(paths)
    # A completed run still holds the slot when its finalize was killed at the very end.
    if head is not None and head["status"] in records.ACTIVE | {"COMPLETED"}:
        return str(head["run_id"])
    # A slot that was lost or spoilt does not make its session unreachable.
    for run_id in reversed(paths.run_ids()):
        with suppress(BrokenRecordError):
            if records.load_head(paths, run_id)["status"] in records.ACTIVE:
                return run_id
    latest = paths.run_ids()[-1:]
    fix = f"critiqor show {latest[0]}   shows the latest run" if latest else "critiqor monitor openclaw"
    raise NoActiveSessionError(f"there is no active session to {verb}", fix=fix)


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


def _decide_cut(paths: SessionPaths, record: SessionRecord) -> None:
    journal = paths.journal_path(record.run_id)
    if not journal.exists():
        restore_journal(paths.evidence_summary_path(record.run_id), journal)
    size = journal.stat().st_size if journal.exists() else 0
    timeline = paths.timeline_path(record.run_id)
    told = timeline.stat().st_size if timeline.is_file() else None
    record.cut = Cut(journal_bytes=size, lifecycle_events=len(record.event_log), timeline_bytes=told)


def _redactor(paths: SessionPaths, run_id: str) -> Redactor:
    path = paths.redaction_key_path(run_id)
    if not path.exists():
        write_bytes(path, _new_key())
    return Redactor(path.read_bytes())


def _seal_and_diagnose(
    paths: SessionPaths, record: SessionRecord, observe: Callable[[Event], None] | None = None
) -> tuple[SealedEvidence, Diagnosis]:
    # Imported here, so that creating a session and appending to it loads no detector.
    from critiqor.run.investigation import Investigation

    hold_session_document(paths.session_lock_path(record.run_id))
    sealed_bytes = record.cut.timeline_bytes if record.cut is not None else None
    investigation = Investigation(paths.timeline_path(record.run_id), sealed_bytes)
    observed = investigation.observe if observe is None else _both(investigation.observe, observe)
    sealed = seal_evidence(paths, record, _redactor(paths, record.run_id), observed)
    diagnosis = investigation.conclude(record.run_id, sealed.digest, sealed.coverage)
    write_json(paths.diagnosis_path(record.run_id), diagnosis)
    return sealed, diagnosis


def _both(one: Callable[[Event], None], other: Callable[[Event], None]) -> Callable[[Event], None]:
    def observe(event: Event) -> None:
        one(event)
        other(event)

    return observe


def seal_aborted(paths: SessionPaths, run_id: str) -> None:
    """Seal and diagnose what an aborted run has recorded."""
    with exclusive(paths.finalize_lock_path(run_id)):
        with exclusive(paths.lock_path):
            record = records.load(paths, run_id)
            if record.cut is None:
                _decide_cut(paths, record)
                records.save(paths, record)
        if record.seal is None:
            sealed, diagnosis = _seal_and_diagnose(paths, record)
            with exclusive(paths.lock_path):
                records.keep_visibility(paths, record)
                _conclude(record, sealed, diagnosis, now_ms())
                records.save(paths, record)
    paths.redaction_key_path(run_id).unlink(missing_ok=True)


def _conclude(record: SessionRecord, sealed: SealedEvidence, diagnosis: Diagnosis, moment: int) -> None:
    now = iso_from_ms(moment)
    record.timestamps = msgspec.structs.replace(record.timestamps, finalized_at=now)
    record.seal = Seal(sealed.digest, sealed.size, sealed.metrics.total_events, now)
    records.conclude(record, diagnosis)


def _as_dict(record: SessionRecord) -> dict[str, Any]:
    return cast("dict[str, Any]", msgspec.to_builtins(record))
