"""Run records on disk: numbering, reading, writing, and the active slot.

A completed record contains the whole event log and can be large. Lists therefore read only the head of the file, and
completing a record copies the sealed events into it without decoding them.
"""

from __future__ import annotations

import json
import mmap
from contextlib import suppress
from typing import Any

import msgspec

from critiqor.errors import BrokenRecordError, UnknownRunError, UsageError
from critiqor.model import Diagnosis, RunHead, SessionRecord, Status
from critiqor.model.record import Visibility, VisibilityChange
from critiqor.storage import AtomicFile, SessionPaths, write_bytes, write_json

ACTIVE: frozenset[Status] = frozenset({"MONITORING", "FINALIZING"})
HEAD_BYTES = 16_384
"""Bytes at the start of a record that contain everything before its diagnosis."""
MAX_VISIBILITY_CHANGES = 50
"""Changes of visibility that a record keeps: all of them must fit into its head."""
_BULKY = frozenset({"diagnosis", "failure_analysis", "causal_graph", "cost_analysis", "event_log"})


def next_run_id(paths: SessionPaths) -> str:
    """Return a run id that was never used in this folder. The caller holds the lock of the folder."""
    used = [entry.name.removeprefix("run_").removesuffix(".json") for entry in paths.runs_dir.glob("run_*")]
    with suppress(FileNotFoundError, UnicodeDecodeError):
        used.append(paths.last_number_path.read_text("ascii"))
    # Longer numbers were not assigned here, and the run id after one would be too long.
    number = max((int(digits) for digits in used if digits.isdecimal() and len(digits) < 16), default=0) + 1
    write_bytes(paths.last_number_path, str(number).encode())
    return f"run_{number:03d}"


def load(paths: SessionPaths, run_id: str) -> SessionRecord:
    """Read the whole record of a run."""
    try:
        record = msgspec.json.decode(paths.run_path(run_id).read_bytes(), type=SessionRecord)
    except FileNotFoundError:
        raise _unknown(run_id) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _broken(paths, run_id, error) from error
    if record.run_id != run_id:
        raise _broken(paths, run_id, f"it contains the record of another run, {record.run_id}")
    return record


def load_head(paths: SessionPaths, run_id: str) -> RunHead:
    """Read the head of a run record, however large the run is."""
    try:
        with paths.run_path(run_id).open("rb") as file:
            text = file.read(HEAD_BYTES).decode("utf-8", "ignore")
    except FileNotFoundError:
        raise _unknown(run_id) from None
    members = _leading_members(text)
    if members.get("run_id") != run_id or "confidence_score" not in members:
        record = load(paths, run_id)
        return RunHead(**{name: getattr(record, name) for name in RunHead.__struct_fields__})
    try:
        return msgspec.convert(members, RunHead)
    except msgspec.ValidationError as error:
        raise _broken(paths, run_id, error) from error


def _record_without_bulk(paths: SessionPaths, run_id: str) -> SessionRecord:
    """Read the head of a record as a record that can be changed; its diagnosis and event log are empty."""
    return SessionRecord(**msgspec.structs.asdict(load_head(paths, run_id)))


def save(paths: SessionPaths, record: SessionRecord) -> None:
    """Write the record of a run that is not completed."""
    write_json(paths.run_path(record.run_id), record)


def save_completed(paths: SessionPaths, record: SessionRecord, events_start: int, events_end: int) -> None:
    """Write the record in its final form: its event log is the sealed events and its last transition."""
    encode = msgspec.json.encode
    last = encode(record.event_log[-1])
    record.event_log = []
    text = encode(record)
    if not text.endswith(b'"event_log":[]}'):
        raise ValueError("the event log must be the last member of a record")
    evidence = paths.evidence_summary_path(record.run_id)
    with AtomicFile(paths.run_path(record.run_id)) as file, evidence.open("rb") as source:
        file.write(text[: -len(b"]}")])
        source.seek(events_start)
        left = events_end - events_start
        while left > 0:
            chunk = source.read(min(left, 1 << 18))
            if not chunk:
                raise BrokenRecordError(
                    f"{evidence} changed while it was sealed", fix=f"critiqor finalize {record.run_id}"
                )
            file.write(chunk)
            left -= len(chunk)
        file.write((b",\n" if events_end > events_start else b"\n") + last + b"\n]}\n")


def conclude(record: SessionRecord, diagnosis: Diagnosis) -> None:
    """Put a diagnosis into a record."""
    record.headline = diagnosis.headline
    record.diagnosis = diagnosis
    record.trust_score = diagnosis.trust_score
    record.confidence_score = diagnosis.confidence_score
    record.failure_analysis = diagnosis.failure_analysis
    record.causal_graph = diagnosis.causal_graph
    record.cost_analysis = diagnosis.cost_analysis


_EVENT_LOG = b'"event_log":['


def save_diagnosis(paths: SessionPaths, run_id: str, diagnosis: Diagnosis) -> None:
    """Write diagnosis.json and put the diagnosis into the record, whose event log is copied unchanged."""
    write_json(paths.diagnosis_path(run_id), diagnosis)
    record = _record_without_bulk(paths, run_id)
    conclude(record, diagnosis)
    path = paths.run_path(run_id)
    text = msgspec.json.encode(record)
    with path.open("rb") as source:
        with mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ) as old:
            # Quotes within strings are escaped, so this can only be the name of the member.
            start = old.find(_EVENT_LOG)
        if start < 0 or not text.endswith(_EVENT_LOG + b"]}"):
            whole = load(paths, run_id)
            conclude(whole, diagnosis)
            save(paths, whole)
            return
        source.seek(start)
        with AtomicFile(path) as file:
            file.write(text[: -len(_EVENT_LOG + b"]}")])
            while chunk := source.read(1 << 18):
                file.write(chunk)


_DIAGNOSIS = b'"diagnosis":'


def change_visibility(paths: SessionPaths, run_id: str, to: Visibility, moment: str) -> Visibility:
    """Change the visibility in a record, whatever its status. Return the previous one.

    The caller holds the lock of the folder. Everything that the seal covers is copied unchanged.
    """
    record = _record_without_bulk(paths, run_id)
    before = record.metadata.visibility
    if before == to:
        return before
    record.metadata = msgspec.structs.replace(record.metadata, visibility=to)
    change = VisibilityChange(before, to, moment)
    record.visibility_changes = [*record.visibility_changes, change][-MAX_VISIBILITY_CHANGES:]
    path = paths.run_path(run_id)
    text = msgspec.json.encode(record)
    with path.open("rb") as source:
        with mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ) as old:
            # Quotes within strings are escaped, so this can only be the first member after the changed ones.
            start = old.find(_DIAGNOSIS)
        if start < 0:
            whole = load(paths, run_id)
            whole.metadata, whole.visibility_changes = record.metadata, record.visibility_changes
            save(paths, whole)
            return before
        source.seek(start)
        with AtomicFile(path) as file:
            file.write(text[: text.index(_DIAGNOSIS)])
            while chunk := source.read(1 << 18):
                file.write(chunk)
    return before


def keep_visibility(paths: SessionPaths, record: SessionRecord) -> None:
    """Copy the visibility on disk into a record that was read earlier. The caller holds the lock of the folder."""
    now = load_head(paths, record.run_id)
    record.metadata, record.visibility_changes = now.metadata, now.visibility_changes


def load_diagnosis(paths: SessionPaths, run_id: str) -> Diagnosis:
    """Read the latest diagnosis of a run."""
    try:
        return msgspec.json.decode(paths.diagnosis_path(run_id).read_bytes(), type=Diagnosis)
    except (FileNotFoundError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        message = f"the diagnosis of {run_id} cannot be read: {error}"
        raise BrokenRecordError(message, fix=f"critiqor diagnose {run_id}") from error


def active_record(paths: SessionPaths) -> SessionRecord | None:
    """Return the record that holds the active slot, or None where the slot names no active run."""
    head = slot_head(paths)
    try:
        return load(paths, head.run_id) if head is not None and head.status in ACTIVE else None
    except (UnknownRunError, BrokenRecordError):
        return None


def slot_head(paths: SessionPaths) -> RunHead | None:
    """Return the head of the run in the active slot, whatever its status; None if the slot is empty."""
    run_id = _slot_run_id(paths)
    try:
        return None if run_id is None else load_head(paths, run_id)
    except (UsageError, UnknownRunError, BrokenRecordError):
        return None


def write_slot(paths: SessionPaths, record: SessionRecord) -> None:
    """Write the active slot of a run."""
    slot = {"run_id": record.run_id, "status": record.status, "owner": record.owner}
    write_json(paths.active_path, {**slot, "started_at": record.timestamps.started_at})


def free_slot(paths: SessionPaths, run_id: str) -> None:
    """Remove the active slot if this run holds it."""
    if _slot_run_id(paths) in (run_id, None):
        paths.active_path.unlink(missing_ok=True)


class _Slot(msgspec.Struct):
    run_id: str


def _slot_run_id(paths: SessionPaths) -> str | None:
    try:
        return msgspec.json.decode(paths.active_path.read_bytes(), type=_Slot).run_id
    except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _unknown(run_id: str) -> UnknownRunError:
    return UnknownRunError(f"there is no run {run_id} in this runs folder", fix="critiqor runs")


def _broken(paths: SessionPaths, run_id: str, reason: object) -> BrokenRecordError:
    path = paths.run_path(run_id)
    fix = f"restore {path.name} from a backup, or remove it; the evidence in {paths.run_folder(run_id)} is not affected"
    return BrokenRecordError(f"the record of {run_id} cannot be read: {reason}", fix=fix)


def _leading_members(text: str) -> dict[str, Any]:
    """Decode the members of a JSON object before the first bulky one; empty where the text ends before it."""
    decoder = json.JSONDecoder()
    members: dict[str, Any] = {}
    position = text.find("{") + 1
    try:
        while True:
            position = _skip(text, position, " \t\r\n,")
            name, position = decoder.raw_decode(text, position)
            if name in _BULKY:
                return members
            members[name], position = decoder.raw_decode(text, _skip(text, position, " \t\r\n:"))
    except (ValueError, IndexError, RecursionError, TypeError):
        return {}


def _skip(text: str, position: int, characters: str) -> int:
    while text[position] in characters:
        position += 1
    return position
