"""Is the seal of a run intact, and if not, where was it broken?

The digest of session.json is in the run record and in the diagnosis. The record also holds the sealed events a second
time, byte for byte, which is how the place of a change is found.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from critiqor.errors import NoActiveSessionError
from critiqor.model.evidence import SealedFile
from critiqor.model.integrity import Proof
from critiqor.storage import SessionPaths
from critiqor.storage.run_record import load_head
from critiqor.storage.seal import file_digest
from critiqor.storage.session_document import read_coverage


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the seal of a run."""

    run_id: str
    intact: bool
    events: int
    digest: str
    """What was sealed."""
    found: str | None
    """What is there now; null when the evidence is gone."""
    problems: list[str]
    """Where it differs, in sentences."""


def verify_run(paths: SessionPaths, run_id: str) -> Verification:
    """Compare the evidence of a run with its seal."""
    head = load_head(paths, run_id)
    seal = head.get("seal")
    if not seal:
        fix = f"critiqor diagnose {run_id}" if head["status"] == "ABORTED" else f"critiqor finalize {run_id}"
        raise NoActiveSessionError(f"{run_id} is {head['status']} and not sealed yet", fix=fix)
    document, record = paths.evidence_summary_path(run_id), paths.run_path(run_id)
    found = file_digest(document)
    problems = []
    # An aborted run has its lifecycle alone in the record.
    has_copy = head["status"] == "COMPLETED"
    if found is None:
        problems.append(f"{document.name} is gone" + (f"; the sealed events are still in {record.name}" * has_copy))
    elif found != seal["digest"]:
        where = _difference(document, record, seal["events"]) or "the events are as sealed; what is around them is not"
        problems.append(f"{document.name} was changed" + f": {where}" * has_copy)
    elif has_copy and (difference := _difference(record, document, seal["events"])):
        problems.append(f"the copy in {record.name} was changed: {difference}")
    if found == seal["digest"]:
        problems += _timeline_problems(paths.timeline_path(run_id), read_coverage(document).timeline)
    diagnosed = _diagnosed_digest(paths.diagnosis_path(run_id))
    if diagnosed != seal["digest"]:
        problems.append("the diagnosis is missing or was made from other evidence")
    return Verification(
        run_id=run_id,
        intact=not problems,
        events=seal["events"],
        digest=seal["digest"],
        found=found,
        problems=problems,
    )


def proof_of(paths: SessionPaths, head: Mapping[str, Any]) -> Proof:
    """What became of the evidence of a run, by its digests alone: `verify_run` says where it differs."""
    run_id, seal = head["run_id"], head["seal"]
    if not seal:
        return Proof(state="not sealed", told="the evidence is not sealed yet")
    document = paths.evidence_summary_path(run_id)
    found = file_digest(document)
    if found is None:
        return Proof(state="missing", told=f"the evidence is gone, there is no {document.name}")
    if found != seal["digest"]:
        return Proof(state="changed", told=f"the evidence is not what was sealed, {document.name} was changed")
    if problems := _timeline_problems(paths.timeline_path(run_id), read_coverage(document).timeline):
        return Proof(state="changed", told=f"the evidence is not what was sealed, {problems[0]}")
    if _diagnosed_digest(paths.diagnosis_path(run_id)) != found:
        return Proof(state="other", told="the diagnosis is missing or was made from other evidence")
    return Proof(state="intact", told="the evidence is what was sealed")


def _timeline_problems(path: Path, sealed: SealedFile | None) -> list[str]:
    """What became of OpenClaw's timeline; what it wrote after the seal is not part of the evidence."""
    digest = file_digest(path, sealed.bytes) if sealed is not None else None
    if sealed is None or digest == sealed.digest:
        return []
    return [f"{path.name} " + ("is gone" if digest is None else "was changed")]


def _diagnosed_digest(path: Path) -> str | None:
    try:
        document = msgspec.json.decode(path.read_bytes())
    except (FileNotFoundError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return document.get("evidence_digest") if isinstance(document, dict) else None


class _Line(NamedTuple):
    offset: int
    event: bytes


def _difference(changed: Path, original: Path, events: int) -> str | None:
    """The first event of `changed` that is not as in `original`, or None when all sealed events are the same."""
    # A record ends with one transition more than was sealed.
    pairs = zip_longest(_event_lines(changed), islice(_event_lines(original), events))
    for number, (line, expected) in enumerate(pairs, 1):
        if expected is None:
            is_own_transition = number == events + 1 and b'"to":"COMPLETED"' in line.event
            if not is_own_transition:
                return f"event {number}{_name(line.event)} was added, at byte {line.offset}"
        elif line is None:
            return f"event {number}{_name(expected.event)} and what follows is missing"
        elif line.event != expected.event:
            return f"event {number}{_name(expected.event)} differs, at byte {line.offset}"
    return None


def _event_lines(path: Path) -> Iterator[_Line]:
    """The lines that hold one event each, in a sealed document or a completed record."""
    with path.open("rb") as file:
        offset = len(file.readline())
        for line in file:
            if line.startswith((b"]", b"}")):
                return
            yield _Line(offset, line.rstrip(b",\n"))
            offset += len(line)


def _name(line: bytes) -> str:
    try:
        event = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    name = event.get("event_id") if isinstance(event, dict) else None
    return f" ({name})" if isinstance(name, str) else ""
