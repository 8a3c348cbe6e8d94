"""Run records on disk: how they are numbered, read, replaced and listed, and who holds the active slot.

A finished record carries the whole event log and can be large, so listings read only the head of the file, and
completing a record copies the sealed events into it without decoding them.
"""

from __future__ import annotations

import json
import mmap
from contextlib import suppress
from typing import Any

import msgspec

from critiqor.errors import BrokenRecordError, UnknownRunError, UsageError
from critiqor.model import Diagnosis, SessionRecord, Status
from critiqor.model.record import Visibility, VisibilityChange
from critiqor.storage import AtomicFile, SessionPaths, write_bytes, write_json

ACTIVE: frozenset[Status] = frozenset({"MONITORING", "FINALIZING"})
HEAD_BYTES = 16_384
"""Enough of a record's beginning to hold everything that comes before its diagnosis."""
MOST_CHANGES = 50
"""Changes of visibility that a record remembers: all of them must fit into its head."""
_BULKY = frozenset({"diagnosis", "failure_analysis", "causal_graph", "cost_analysis", "event_log"})


def next_run_id(paths: SessionPaths) -> str:
    """A run id that was never given before in this folder. The caller holds the folder's lock."""
    given = [entry.name.removeprefix("run_").removesuffix(".json") for entry in paths.runs_dir.glob("run_*")]
    with suppress(FileNotFoundError, UnicodeDecodeError):
        given.append(paths.last_number_path.read_text("ascii"))
    # A longer number is none of ours, and would make run ids that are too long to be any.
    number = max((int(digits) for digits in given if digits.isdecimal() and len(digits) < 16), default=0) + 1
    write_bytes(paths.last_number_path, str(number).encode())
    return f"run_{number:03d}"


def load(paths: SessionPaths, run_id: str) -> SessionRecord:
    """The whole record of a run."""
    try:
        record = msgspec.json.decode(paths.run_path(run_id).read_bytes(), type=SessionRecord)
    except FileNotFoundError:
        raise _unknown(run_id) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _broken(paths, run_id, error) from error
    if record.run_id != run_id:
        raise _broken(paths, run_id, f"it says that it is of {record.run_id}")
    return record


def load_head(paths: SessionPaths, run_id: str) -> dict[str, Any]:
    """A record without its diagnosis and event log, however large the run is."""
    try:
        with paths.run_path(run_id).open("rb") as file:
            text = file.read(HEAD_BYTES).decode("utf-8", "ignore")
    except FileNotFoundError:
        raise _unknown(run_id) from None
    head = _leading_members(text)
    if head.get("run_id") != run_id or "confidence_score" not in head:
        record = load(paths, run_id)
    else:
        try:
            record = msgspec.convert(head, SessionRecord)
        except msgspec.ValidationError as error:
            raise _broken(paths, run_id, error) from error
    return {name: value for name, value in msgspec.to_builtins(record).items() if name not in _BULKY}


def save(paths: SessionPaths, record: SessionRecord) -> None:
    """Replace the record of a run that is not completed."""
    write_json(paths.run_path(record.run_id), record)


def save_completed(paths: SessionPaths, record: SessionRecord, events_start: int, events_end: int) -> None:
    """Replace the record with its final form; its event log is the sealed events, then its own last transition."""
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
    """Enter what was concluded into a record."""
    record.headline = diagnosis.headline
    record.diagnosis = diagnosis
    record.trust_score = diagnosis.trust_score
    record.confidence_score = diagnosis.confidence_score
    record.failure_analysis = diagnosis.failure_analysis
    record.causal_graph = diagnosis.causal_graph
    record.cost_analysis = diagnosis.cost_analysis


_EVENT_LOG = b'"event_log":['


def save_diagnosis(paths: SessionPaths, run_id: str, diagnosis: Diagnosis) -> None:
    """Write diagnosis.json, and enter it into the record; the event log of the record is copied as it is."""
    write_json(paths.diagnosis_path(run_id), diagnosis)
    record = msgspec.convert(load_head(paths, run_id), SessionRecord)
    conclude(record, diagnosis)
    path = paths.run_path(run_id)
    text = msgspec.json.encode(record)
    with path.open("rb") as source:
        with mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ) as old:
            # Within a text its quotes are escaped, so this is the name of the member and nothing else.
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
    """Enter another visibility into a record, whatever its status; returns the one before.

    The caller holds the folder's lock. What the seal covers is copied as it is.
    """
    record = msgspec.convert(load_head(paths, run_id), SessionRecord)
    before = record.metadata.visibility
    if before == to:
        return before
    record.metadata = msgspec.structs.replace(record.metadata, visibility=to)
    change = VisibilityChange(before, to, moment)
    record.visibility_changes = [*record.visibility_changes, change][-MOST_CHANGES:]
    path = paths.run_path(run_id)
    text = msgspec.json.encode(record)
    with path.open("rb") as source:
        with mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ) as old:
            # Within a text its quotes are escaped, so this is the first member after those that were changed.
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
    """Take over what was changed on disk since a record was read. The caller holds the folder's lock."""
    now = msgspec.convert(load_head(paths, record.run_id), SessionRecord)
    record.metadata, record.visibility_changes = now.metadata, now.visibility_changes


def load_diagnosis(paths: SessionPaths, run_id: str) -> Diagnosis:
    """What was concluded last from the evidence of a run."""
    try:
        return msgspec.json.decode(paths.diagnosis_path(run_id).read_bytes(), type=Diagnosis)
    except (FileNotFoundError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        message = f"the diagnosis of {run_id} cannot be read: {error}"
        raise BrokenRecordError(message, fix=f"critiqor diagnose {run_id}") from error


def active_record(paths: SessionPaths) -> SessionRecord | None:
    """The record that holds the active slot; a slot that points to nothing active is as good as none."""
    head = slot_head(paths)
    try:
        return load(paths, head["run_id"]) if head and head["status"] in ACTIVE else None
    except (UnknownRunError, BrokenRecordError):
        return None


def slot_head(paths: SessionPaths) -> dict[str, Any] | None:
    """The head of the run that the active slot names, whatever became of it; None where it names none."""
    run_id = _slot_run_id(paths)
    try:
        return None if run_id is None else load_head(paths, run_id)
    except (UsageError, UnknownRunError, BrokenRecordError):
        return None


def write_slot(paths: SessionPaths, record: SessionRecord) -> None:
    """Claim the active slot for a run, or restate it."""
    slot = {"run_id": record.run_id, "status": record.status, "owner": record.owner}
    write_json(paths.active_path, {**slot, "started_at": record.timestamps.started_at})


def free_slot(paths: SessionPaths, run_id: str) -> None:
    """Free the active slot if this run holds it."""
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
    fix = f"the evidence in {paths.run_folder(run_id)} is not affected; restore {path.name} or remove it"
    return BrokenRecordError(f"the record of {run_id} cannot be read: {reason}", fix=fix)


def _leading_members(text: str) -> dict[str, Any]:
    """The members of a JSON object up to the first bulky one; nothing where the text ends before it."""
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
