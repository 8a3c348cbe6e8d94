"""Verification of a run: whether its sealed evidence was changed, and where.

The digest of session.json is in the run record and in the diagnosis. The record also contains a second copy of the
sealed events, byte for byte, which is used to locate a change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import islice, zip_longest
from pathlib import Path
from typing import NamedTuple

import msgspec

from critiqor.errors import NoActiveSessionError
from critiqor.model.evidence import SealedFile
from critiqor.storage import SessionPaths
from critiqor.storage.journal import read_chunks
from critiqor.storage.run_record import load_head
from critiqor.storage.session_document import read_coverage


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """Result of verifying the seal of a run."""

    run_id: str
    intact: bool
    events: int
    digest: str
    """Digest of the sealed evidence."""
    found: str | None
    """Digest of session.json now; null where it is missing."""
    problems: list[str]
    """Every difference, one sentence each."""


def verify_run(paths: SessionPaths, run_id: str) -> Verification:
    """Compare the evidence of a run with its seal, and locate every difference."""
    head = load_head(paths, run_id)
    seal = head.seal
    if seal is None:
        fix = f"critiqor diagnose {run_id}" if head.status == "ABORTED" else f"critiqor finalize {run_id}"
        raise NoActiveSessionError(f"{run_id} is {head.status} and not sealed yet", fix=fix)
    document, record = paths.evidence_summary_path(run_id), paths.run_path(run_id)
    found = file_digest(document)
    problems = []
    # The record of an aborted run contains lifecycle events only.
    has_copy = head.status == "COMPLETED"
    if found is None:
        problems.append(f"{document.name} is gone" + (f"; the sealed events are still in {record.name}" * has_copy))
    elif found != seal.digest:
        where = (
            _difference(document, record, seal.events)
            or "the events are unchanged; other parts of the file were changed"
        )
        problems.append(f"{document.name} was changed" + f": {where}" * has_copy)
    elif has_copy and (difference := _difference(record, document, seal.events)):
        problems.append(f"the copy in {record.name} was changed: {difference}")
    if found == seal.digest:
        problems += sealed_timeline_problems(paths.timeline_path(run_id), read_coverage(document).timeline)
    diagnosed = _diagnosed_digest(paths.diagnosis_path(run_id))
    if diagnosed != seal.digest:
        problems.append("the diagnosis is missing or does not match the sealed evidence")
    return Verification(
        run_id=run_id,
        intact=not problems,
        events=seal.events,
        digest=seal.digest,
        found=found,
        problems=problems,
    )


def file_digest(path: Path, limit: int | None = None) -> str | None:
    """Return the digest for the verification of a file, or of its first `limit` bytes; None if there is no file."""
    digest = hashlib.sha256()
    try:
        for data in read_chunks(path, limit):
            digest.update(data)
    except FileNotFoundError:
        return None
    return f"sha256:{digest.hexdigest()}"


def sealed_timeline_problems(path: Path, sealed: SealedFile | None) -> list[str]:
    """Compare OpenClaw's timeline with its seal; lines written after the seal are not part of the evidence."""
    digest = file_digest(path, sealed.bytes) if sealed is not None else None
    if sealed is None or digest == sealed.digest:
        return []
    return [f"{path.name} " + ("is gone" if digest is None else "was changed")]


def _diagnosed_digest(path: Path) -> str | None:
    """Read which evidence a diagnosis.json was made from, to verify that: its digest; None if missing or broken."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Diagnosed).evidence_digest
    except (FileNotFoundError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


class _Diagnosed(msgspec.Struct):
    evidence_digest: str


class _Line(NamedTuple):
    offset: int
    event: bytes


def _difference(changed: Path, original: Path, events: int) -> str | None:
    """Describe the first event of `changed` that differs from `original`; None where all sealed events are the same."""
    # A record ends with one more transition than was sealed.
    pairs = zip_longest(_event_lines(changed), islice(_event_lines(original), events))
    for number, (line, expected) in enumerate(pairs, 1):
        if expected is None:
            is_own_transition = number == events + 1 and b'"to":"COMPLETED"' in line.event
            if not is_own_transition:
                return f"event {number}{_name(line.event)} was added, at byte {line.offset}"
        elif line is None:
            return f"event {number}{_name(expected.event)} and everything after it is gone"
        elif line.event != expected.event:
            return f"event {number}{_name(expected.event)} differs, at byte {line.offset}"
    return None


def _event_lines(path: Path) -> Iterator[_Line]:
    """Read the lines that contain one event each, in a sealed document or a completed record."""
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
