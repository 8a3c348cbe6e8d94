"""Is the seal of a run intact, and if not, where was it broken?

The digest of session.json is in the run record and in the diagnosis. The record also holds the sealed events a second
time, byte for byte, which is how the place of a change is found.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from critiqor.errors import NoActiveSessionError
from critiqor.records import load_head
from critiqor.storage import SessionPaths


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
        fix = f"critiqor diagnose {run_id}" if head["status"] == "ABORTED" else "critiqor finalize"
        raise NoActiveSessionError(f"{run_id} is {head['status']} and not sealed yet", fix=fix)
    document, record = paths.evidence_summary_path(run_id), paths.run_path(run_id)
    found = _digest(document)
    problems = []
    if found is None:
        problems.append(f"{document.name} is gone; the sealed events are still in {record.name}")
    elif found != seal["digest"]:
        problems.append(_difference(document, record) or "its head, metrics or coverage were changed")
    elif head["status"] == "COMPLETED" and (difference := _difference(record, document)):
        problems.append(f"the copy in {record.name} was changed: {difference}")
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


def _digest(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    except FileNotFoundError:
        return None


def _diagnosed_digest(path: Path) -> str | None:
    try:
        document = msgspec.json.decode(path.read_bytes())
    except (FileNotFoundError, msgspec.DecodeError):
        return None
    return document.get("evidence_digest") if isinstance(document, dict) else None


def _difference(changed: Path, original: Path) -> str | None:
    """The first event of `changed` that is not as in `original`, or None when all events are the same."""
    there = _event_lines(changed)
    for number, (_, expected) in enumerate(_event_lines(original), 1):
        offset, line = next(there, (None, None))
        if line == expected:
            continue
        name = _event_id(expected)
        if name is None:
            return None
        if line is None:
            return f"event {number} ({name}) and what follows is missing"
        return f"event {number} ({name}) differs, at byte {offset}"
    return None


def _event_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines that hold one event each; the record has one transition more, which nothing is compared with."""
    with path.open("rb") as file:
        offset = len(file.readline())
        for line in file:
            if not line.startswith(b"{"):
                return
            yield offset, line.rstrip(b",\n")
            offset += len(line)


def _event_id(line: bytes) -> str | None:
    try:
        event = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return None
    return event.get("event_id") if isinstance(event, dict) else None
