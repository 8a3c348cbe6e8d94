"""Run records on disk: new records, their states and lifecycle events, reading and writing.

A completed record contains the whole event log and can be large. Lists therefore read only the head of the file, and
completing a record copies the sealed events into it without decoding them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any, TypeVar, cast

import msgspec

from critiqor.errors import BrokenRecordError, UnknownRunError
from critiqor.model import (
    Diagnosis,
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
from critiqor.model.diagnosis import BriefDiagnosis
from critiqor.model.record import Visibility, VisibilityChange
from critiqor.storage import AtomicFile, SessionPaths, open_regular_file, write_bytes, write_json
from critiqor.storage.atomic import read_regular_file
from critiqor.storage.paths import FOLDER_MODE
from critiqor.storage.visibility_file import with_visibility, write_visibility

ACTIVE: frozenset[Status] = frozenset({"MONITORING", "FINALIZING"})
HEAD_BYTES = 16_384
"""Bytes at the start of a record that contain everything before its diagnosis."""
MAX_VISIBILITY_CHANGES = 50
"""Changes of visibility that a record keeps: all of them must fit into its head."""
SUPERVISOR = "0supervisor"
"""Writer name of lifecycle events; sorts before any recorder within the same millisecond."""
_ENVELOPE = frozenset({*Event.__struct_fields__, "type"})
_DIAGNOSIS = b'"diagnosis":'
_CONFIDENCE = b'"confidence_score":'
"""The last member of the head."""
_EVENT_LOG = b'"event_log":['
_Diagnosis = TypeVar("_Diagnosis", Diagnosis, BriefDiagnosis)
_CLAIMS, _COST, _AFTER_COST = b'\n  "claims": ', b'\n  "cost_analysis": ', b'\n  "memory_analysis": '
"""Members of a diagnosis. A line break is escaped within strings, and deeper members have more spaces before them."""
_BULKY = frozenset({"diagnosis", "failure_analysis", "causal_graph", "cost_analysis", "event_log"})


def new_record(paths: SessionPaths, metadata: Metadata, owner: Owner | None, moment: int) -> SessionRecord:
    """Return a new run record, and create the folder of the run, its redaction key and its redaction rules.

    The caller holds the lock of the runs folder. The record itself is not written yet.
    """
    from critiqor.storage.redaction import new_redaction_key
    from critiqor.storage.redaction.user_rules import rules_file_from_settings

    user_rules = rules_file_from_settings()
    run_id = _next_run_id(paths)
    now = iso_from_ms(moment)
    paths.run_folder(run_id).mkdir(mode=FOLDER_MODE, exist_ok=True)
    write_bytes(paths.redaction_key_path(run_id), new_redaction_key())
    if user_rules is not None:
        write_bytes(paths.redaction_rules_path(run_id), user_rules)
    return SessionRecord(
        run_id=run_id,
        status="IDLE",
        lifecycle=[Transition("IDLE", now)],
        timestamps=Timestamps(created_at=now),
        metadata=metadata,
        owner=owner,
    )


def _next_run_id(paths: SessionPaths) -> str:
    """Return a run id that was never used in this folder. The caller holds the lock of the folder."""
    used = [entry.name.removeprefix("run_").removesuffix(".json") for entry in paths.runs_dir.glob("run_*")]
    with suppress(OSError, UnicodeDecodeError):
        used.append(read_regular_file(paths.last_number_path).decode("ascii"))
    # Longer numbers were not assigned here, and the run id after one would be too long.
    number = max((int(digits) for digits in used if digits.isdecimal() and len(digits) < 16), default=0) + 1
    write_bytes(paths.last_number_path, str(number).encode())
    return f"run_{number:03d}"


def change_state(record: SessionRecord, state: Status, moment: int, **details: Any) -> None:
    """Set the state in a run record, with its state_transition event."""
    previous, record.status = record.status, state
    record.lifecycle.append(Transition(state, iso_from_ms(moment)))
    payload = {"from": previous, "to": state, **details}
    append_event(record, {"event_type": EventType.STATE_TRANSITION, "payload": payload}, moment)


def append_event(record: SessionRecord, event: Mapping[str, Any], moment: int | None = None) -> dict[str, Any]:
    """Append a lifecycle event to the event log of a run record. Return it in the full envelope."""
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


def load(paths: SessionPaths, run_id: str) -> SessionRecord:
    """Read a whole run record."""
    try:
        with open_regular_file(paths.run_path(run_id)) as file:
            record = msgspec.json.decode(file.read(), type=SessionRecord)
    except FileNotFoundError:
        raise _unknown(paths, run_id) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _broken(paths, run_id, error) from error
    if record.run_id != run_id:
        raise _broken(paths, run_id, f"it contains the record of another run, {record.run_id}")
    return with_visibility(paths.visibility_path(run_id), record)


def load_head(paths: SessionPaths, run_id: str) -> RunHead:
    """Read the head of a run record, however large the run is."""
    return with_visibility(paths.visibility_path(run_id), _read_head(paths, run_id))


def _read_head(paths: SessionPaths, run_id: str) -> RunHead:
    try:
        with open_regular_file(paths.run_path(run_id)) as file:
            data = file.read(HEAD_BYTES)
    except FileNotFoundError:
        raise _unknown(paths, run_id) from None
    head = _head_before_diagnosis(data)
    if head is not None and head.run_id == run_id:
        return head
    # Invalid bytes become lone surrogates, which cannot be encoded again; the last character can be incomplete.
    members = _leading_members(data.decode("utf-8", "surrogateescape"))
    if members.get("run_id") != run_id or "confidence_score" not in members:
        record = load(paths, run_id)
        return RunHead(**{name: getattr(record, name) for name in RunHead.__struct_fields__})
    try:
        # Encoded again, because the decoder of the standard library accepts more than JSON, such as lone surrogates.
        return msgspec.json.decode(msgspec.json.encode(members), type=RunHead)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise _broken(paths, run_id, error) from error


def _record_without_bulk(paths: SessionPaths, run_id: str) -> SessionRecord:
    """Read the head of a record as a record that can be changed; its diagnosis and event log are empty."""
    return SessionRecord(**msgspec.structs.asdict(load_head(paths, run_id)))


def save(paths: SessionPaths, record: SessionRecord) -> None:
    """Write a run record that is not completed."""
    write_json(paths.run_path(record.run_id), record)


def save_completed(paths: SessionPaths, record: SessionRecord, events_start: int, events_end: int) -> None:
    """Write a run record in its final form: its event log is the sealed events and its last transition."""
    encode = msgspec.json.encode
    last = encode(record.event_log[-1])
    record.event_log = []
    text = encode(record)
    if not text.endswith(b'"event_log":[]}'):
        raise ValueError("the event log must be the last member of a record")
    evidence = paths.evidence_summary_path(record.run_id)
    with AtomicFile(paths.run_path(record.run_id)) as file, open_regular_file(evidence) as source:
        file.write(text[: -len(b"]}")])
        if file.write_range(source, events_start, events_end) < events_end - events_start:
            fix = f"critiqor finalize {record.run_id}"
            raise BrokenRecordError(f"{evidence} changed while it was sealed", fix=fix)
        file.write((b",\n" if events_end > events_start else b"\n") + last + b"\n]}\n")


def set_diagnosis(record: SessionRecord, diagnosis: Diagnosis) -> None:
    """Copy a diagnosis, its headline and its scores into the fields of a run record."""
    record.headline = diagnosis.headline
    record.diagnosis = diagnosis
    record.trust_score = diagnosis.trust_score
    record.confidence_score = diagnosis.confidence_score
    record.failure_analysis = diagnosis.failure_analysis
    record.causal_graph = diagnosis.causal_graph
    record.cost_analysis = diagnosis.cost_analysis


def rewrite_diagnosis(paths: SessionPaths, run_id: str, diagnosis: Diagnosis) -> None:
    """Replace the diagnosis in the file of a run record; its event log is copied unchanged.

    The caller holds the lock of the folder.
    """
    record = _record_without_bulk(paths, run_id)
    set_diagnosis(record, diagnosis)
    if not _rewrite_until(_EVENT_LOG, paths, record):
        whole = load(paths, run_id)
        set_diagnosis(whole, diagnosis)
        save(paths, whole)


def rewrite_visibility(paths: SessionPaths, run_id: str, to: Visibility, moment: str) -> Visibility:
    """Replace the visibility in the run record, whatever its status, and in its own file. Return the old one.

    The caller holds the lock of the folder. Everything that the seals cover is copied unchanged.
    """
    record = _record_without_bulk(paths, run_id)
    before = record.metadata.visibility
    if before == to:
        return before
    record.metadata = msgspec.structs.replace(record.metadata, visibility=to)
    change = VisibilityChange(before, to, moment)
    record.visibility_changes = [*record.visibility_changes, change][-MAX_VISIBILITY_CHANGES:]
    write_visibility(paths.visibility_path(run_id), record)
    if not _rewrite_until(_DIAGNOSIS, paths, record):
        whole = load(paths, run_id)
        whole.metadata, whole.visibility_changes = record.metadata, record.visibility_changes
        save(paths, whole)
    return before


def _rewrite_until(member: bytes, paths: SessionPaths, record: SessionRecord) -> bool:
    """Replace everything before a member in the file of a record; return False if the file has no such member."""
    import mmap  # lists of runs need neither this nor `json`

    path = paths.run_path(record.run_id)
    text = msgspec.json.encode(record)
    with open_regular_file(path) as source:
        with mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ) as old:
            # Quotes within strings are escaped, so this can only be the name of the member.
            start = old.find(member)
        if start < 0:
            return False
        source.seek(start)
        with AtomicFile(path) as file:
            file.write(text[: text.index(member)])
            while chunk := source.read(1 << 18):
                file.write(chunk)
    return True


def keep_visibility(paths: SessionPaths, record: SessionRecord) -> None:
    """Copy the visibility of the run record on disk into one that was read before. The caller holds the lock."""
    now = load_head(paths, record.run_id)
    record.metadata, record.visibility_changes = now.metadata, now.visibility_changes


def load_diagnosis(paths: SessionPaths, run_id: str) -> Diagnosis:
    """Read the latest diagnosis of a run from the file beside its record."""
    return _read_diagnosis(paths, run_id, Diagnosis)


def load_brief_diagnosis(paths: SessionPaths, run_id: str) -> BriefDiagnosis:
    """Read what lists show of the latest diagnosis of a run."""
    return _read_diagnosis(paths, run_id, BriefDiagnosis)


def _read_diagnosis(paths: SessionPaths, run_id: str, kind: type[_Diagnosis]) -> _Diagnosis:
    try:
        with open_regular_file(paths.diagnosis_path(run_id)) as file:
            data = file.read()
        return msgspec.json.decode(_without_bulk(data) if kind is BriefDiagnosis else data, type=kind)
    except (FileNotFoundError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        message = f"the diagnosis of {run_id} cannot be read: {error}"
        raise BrokenRecordError(message, fix=f"critiqor diagnose {run_id}") from error


def _without_bulk(data: bytes) -> bytes:
    """Return a diagnosis as Critiqor writes it without its largest members, which lists do not show."""
    start = data.find(_CLAIMS)
    cost = data.find(_COST, start)
    end = data.find(_AFTER_COST, cost)
    return data[:start] + data[cost:end].rstrip(b",") + b"}" if 0 < start < cost < end else data


def _unknown(paths: SessionPaths, run_id: str) -> UnknownRunError:
    if paths.is_lost(run_id):
        return UnknownRunError(f"the record of {run_id} is missing", fix=f"critiqor recover {run_id}")
    return UnknownRunError(f"there is no run {run_id} in this runs folder", fix="critiqor runs")


def _broken(paths: SessionPaths, run_id: str, reason: object) -> BrokenRecordError:
    path = paths.run_path(run_id)
    fix = f"critiqor recover {run_id}   (or restore {path.name} from a backup)"
    return BrokenRecordError(f"the record of {run_id} cannot be read: {reason}", fix=fix)


def _head_before_diagnosis(data: bytes) -> RunHead | None:
    """Decode the head of a record as Critiqor writes it; None if it has to be looked at more closely."""
    end = data.find(_DIAGNOSIS)
    if end < 0 or _CONFIDENCE not in data[:end]:
        return None
    try:
        return msgspec.json.decode(data[:end].rstrip(b", \t\r\n") + b"}", type=RunHead)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def readable_members(data: bytes) -> dict[str, Any]:
    """Decode the members of a damaged run record, up to the first one that cannot be read."""
    members: dict[str, Any] = {}
    with suppress(ValueError, IndexError, RecursionError, TypeError):
        for name, value in _members(data.decode("utf-8", "replace")):
            members[name] = value
    return members


def _leading_members(text: str) -> dict[str, Any]:
    """Decode the members of a JSON object before the first bulky one; empty where the text ends before it."""
    members: dict[str, Any] = {}
    try:
        for name, value in _members(text, _BULKY):
            members[name] = value
    except (ValueError, IndexError, RecursionError, TypeError):
        return {}
    return members


def _members(text: str, until: Collection[str] = ()) -> Iterator[tuple[str, Any]]:
    """Yield the members of a JSON object one by one, up to one of these names."""
    import json

    decoder = json.JSONDecoder()
    position = text.find("{") + 1
    while True:
        position = _skip(text, position, " \t\r\n,")
        name, position = decoder.raw_decode(text, position)
        if not isinstance(name, str):
            raise TypeError("the name of a member is no text")
        if name in until:
            return
        value, position = decoder.raw_decode(text, _skip(text, position, " \t\r\n:"))
        yield name, value


def _skip(text: str, position: int, characters: str) -> int:
    while text[position] in characters:
        position += 1
    return position
