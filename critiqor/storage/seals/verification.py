"""Verification of a run: whether its sealed evidence, its record and its diagnosis were changed, where, and who signed.

The digest of session.json is in the run record and in the diagnosis. The record also contains a second copy of the
sealed events, byte for byte, and the journal the events as they were recorded; both are used to locate a change.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice, zip_longest
from operator import eq
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec

from critiqor.errors import BrokenRecordError, NoActiveSessionError
from critiqor.model.record import RunHead, Seal
from critiqor.model.verdict import Check
from critiqor.storage import SessionPaths
from critiqor.storage.atomic import open_regular_file, read_regular_file
from critiqor.storage.run_record import load, load_head
from critiqor.storage.seals.diagnosis_seal import FoundSeal, diagnosis_problem, read_diagnosis_seal
from critiqor.storage.seals.digests import file_digest, sealed_file_problems
from critiqor.storage.seals.record_digest import record_digest, record_problem
from critiqor.storage.seals.signatures import check_signature, diagnosis_message, evidence_message
from critiqor.storage.seals.signing_key import key_path
from critiqor.storage.session_document import encode, read_coverage


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """Result of verifying the seals of a run."""

    run_id: str
    intact: bool
    """Whether no check failed. Which ones were possible is in `checks`."""
    events: int
    digest: str
    """Digest of the sealed evidence."""
    found: str | None
    """Digest of session.json now; null where it is missing."""
    problems: list[str]
    """Every difference, one sentence each."""
    checks: list[Check]
    """What was checked, and with which result."""


def verify_run(paths: SessionPaths, run_id: str) -> Verification:
    """Compare the files of a run with their seals, locate every difference, and check the signatures."""
    head = load_head(paths, run_id)
    seal = head.seal
    if seal is None:
        fix = f"critiqor diagnose {run_id}" if head.status == "ABORTED" else f"critiqor finalize {run_id}"
        raise NoActiveSessionError(f"{run_id} is {head.status} and not sealed yet", fix=fix)
    document = paths.evidence_summary_path(run_id)
    found = file_digest(document)
    checks = [_evidence_check(paths, head, seal, found)]
    if found == seal.digest:
        coverage = read_coverage(document)
        problems = sealed_file_problems(paths.timeline_path(run_id), coverage.timeline)
        if coverage.timeline is not None:
            checks.append(_check("timeline", problems, "OpenClaw's timeline is unchanged since sealing"))
        problems = sealed_file_problems(paths.carried_path(run_id), coverage.carried)
        if coverage.carried is not None:
            checks.append(_check("carried", problems, "what was carried over from earlier segments is unchanged"))
    diagnosis = _read_diagnosed(paths.diagnosis_path(run_id))
    diagnosis_seal = read_diagnosis_seal(paths.diagnosis_path(run_id))
    diagnosis_check = _diagnosis_check(run_id, seal, diagnosis, diagnosis_seal)
    has_diagnosis = diagnosis_check.state != "failed"
    checks.append(_record_check(paths, head, seal, has_evidence=found == seal.digest, has_diagnosis=has_diagnosis))
    checks.append(diagnosis_check)
    checks.append(_evidence_signature(head, seal))
    if diagnosis is not None:
        checks.append(_diagnosis_signature(run_id, diagnosis, diagnosis_seal))
    return with_checks(
        Verification(
            run_id=run_id, intact=True, events=seal.events, digest=seal.digest, found=found, problems=[], checks=[]
        ),
        checks,
    )


def are_events_kept_twice(paths: SessionPaths, run_id: str) -> bool:
    """Verify that the evidence is as it was sealed, and that the run record has the same events; both are streamed."""
    head = load_head(paths, run_id)
    document, record = paths.evidence_summary_path(run_id), paths.run_path(run_id)
    if head.seal is None or not _has_copy(head) or file_digest(document) != head.seal.digest:
        return False
    last = max(0, head.seal.events - 1)
    with _opened(record) as kept, _opened(document) as sealed:
        kept.readline()
        sealed.readline()
        # The last event may be followed by others in one of them, so its line may end in another way.
        if not all(map(eq, islice(kept, last), islice(sealed, last))):
            return False
        return _difference(_lines_of(kept, 0), _lines_of(sealed, 0), head.seal.events - last) is None


def with_checks(verification: Verification, checks: Iterable[Check]) -> Verification:
    """Return a verification with further checks, and with their problems."""
    checks = [*verification.checks, *checks]
    problems = [check.explanation for check in checks if check.state == "failed"]
    return msgspec.structs.replace(verification, checks=checks, problems=problems, intact=not problems)


def _check(name: str, problems: list[str], passed: str, fix: str | None = None) -> Check:
    if problems:
        return Check(name=name, state="failed", explanation="; ".join(problems), fix=fix)
    return Check(name=name, state="passed", explanation=passed)


def _evidence_check(paths: SessionPaths, head: RunHead, seal: Seal, found: str | None) -> Check:
    document, record = paths.evidence_summary_path(head.run_id), paths.run_path(head.run_id)
    has_copy = _has_copy(head)
    problems = []
    if found is None:
        problems.append(f"{document.name} is gone" + (f"; the sealed events are still in {record.name}" * has_copy))
    elif found != seal.digest:
        where = _difference(_event_lines(document), _event_lines(record), seal.events) if has_copy else None
        where = where or _difference_from_journal(paths, head, document, seal.events)
        where = where or ("the events are unchanged; other parts of the file were changed" if has_copy else None)
        problems.append(f"{document.name} was changed" + (f": {where}" if where else ""))
    return _check("evidence", problems, f"{document.name} is unchanged since sealing")


def _has_copy(head: RunHead) -> bool:
    """Return whether the record contains the sealed events: that of an aborted run has lifecycle events only."""
    return head.status == "COMPLETED"


def _record_check(paths: SessionPaths, head: RunHead, seal: Seal, *, has_evidence: bool, has_diagnosis: bool) -> Check:
    """Compare a record with its digest, and what it copies with the evidence and the diagnosis if they are intact."""
    document, record = paths.evidence_summary_path(head.run_id), paths.run_path(head.run_id)
    problems = [problem] if (problem := record_problem(head)) else []
    if has_evidence and _has_copy(head):
        where = _difference(_event_lines(record), _event_lines(document), seal.events)
        problems += [f"the copy in {record.name} was changed: {where}"] if where else []
    if has_diagnosis and (name := _differing_copy(paths, head.run_id)) is not None:
        problems.append(f"{record.name} does not contain the same {name} as diagnosis.json")
        return _check("record", problems, "", fix=f"critiqor diagnose {head.run_id}")
    if not problems and seal.record is None:
        text = f"an older version sealed no digest of {record.name}; its copy of the events is unchanged"
        return Check(name="record", state="not checked", explanation=text)
    return _check("record", problems, f"{record.name} is unchanged since sealing, except for who may see the run")


class _Copies(msgspec.Struct):
    """What a record copies from diagnosis.json; its event log can be large and is not decoded."""

    headline: Any = None
    trust_score: Any = None
    confidence_score: Any = None
    failure_analysis: Any = None
    causal_graph: Any = None
    cost_analysis: Any = None
    diagnosis: Any = None


def _differing_copy(paths: SessionPaths, run_id: str) -> str | None:
    """Return which copy of a member of diagnosis.json in the record differs; None if none does or can be read."""
    try:
        diagnosis = msgspec.json.decode(read_regular_file(paths.diagnosis_path(run_id)))
        copies = msgspec.json.decode(read_regular_file(paths.run_path(run_id)), type=_Copies)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if not isinstance(diagnosis, dict) or copies.diagnosis is None:
        return None
    diagnosis.pop("seal", None)
    expected = {**diagnosis, "diagnosis": diagnosis}
    names = _Copies.__struct_fields__
    return next((name for name in names if getattr(copies, name) != expected.get(name)), None)


def _diagnosis_check(run_id: str, seal: Seal, diagnosis: _Diagnosed | None, found: FoundSeal | None) -> Check:
    fix = f"critiqor diagnose {run_id}"
    if diagnosis is None or diagnosis.evidence_digest != seal.digest:
        text = "the diagnosis is missing or does not match the sealed evidence"
        return Check(name="diagnosis", state="failed", explanation=text, fix=fix)
    problem = diagnosis_problem(found, is_required=seal.record is not None)
    if problem is None and found is None:
        text = "an older version made diagnosis.json without a seal"
        return Check(name="diagnosis", state="not checked", explanation=text, fix=fix)
    passed = "diagnosis.json is unchanged since it was made, and belongs to the sealed evidence"
    return _check("diagnosis", [problem] if problem else [], passed, fix)


def _evidence_signature(head: RunHead, seal: Seal) -> Check:
    if seal.signature is None:
        return _not_signed("evidence_signature", "the evidence", seal.unsigned, None)
    message = evidence_message(head.run_id, seal.digest, record_digest(head))
    return _signature("evidence_signature", "evidence and record", message, seal.signature, seal.sealed_at)


def _diagnosis_signature(run_id: str, diagnosis: _Diagnosed, found: FoundSeal | None) -> Check:
    name = "diagnosis_signature"
    if found is None or found.seal.signature is None:
        why = found.seal.unsigned if found is not None else None
        return _not_signed(name, "the diagnosis", why, f"critiqor diagnose {run_id}")
    message = diagnosis_message(run_id, diagnosis.evidence_digest, diagnosis.rule_set_version, found.found)
    return _signature(name, "diagnosis", message, found.seal.signature, diagnosis.generated_at)


def _not_signed(name: str, what: str, why: str | None, fix: str | None) -> Check:
    """Return the check of a missing signature; `fix` is how to sign with a key that exists now."""
    text = f"{what} is not signed" + (f": {why}" if why else "")
    return Check(
        name=name, state="not checked", explanation=text, fix=fix if key_path().exists() else "critiqor keys init"
    )


def _signature(name: str, what: str, message: bytes, signature: str, moment: str) -> Check:
    result = check_signature(message, signature, moment)
    text = f"{what}: {result.explanation}"
    return Check(name=name, state=result.state, explanation=text, fix=result.fix, signer=result.signer)


class _Diagnosed(msgspec.Struct):
    evidence_digest: str
    rule_set_version: str = ""
    generated_at: str = ""


def _read_diagnosed(path: Path) -> _Diagnosed | None:
    """Read which evidence a diagnosis.json was made from, and by which rules; None if it is missing or broken."""
    try:
        return msgspec.json.decode(read_regular_file(path), type=_Diagnosed)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


class _Line(NamedTuple):
    offset: int
    event: bytes


def _difference_from_journal(paths: SessionPaths, head: RunHead, document: Path, events: int) -> str | None:
    """Describe the first event of session.json that differs from the recorded ones; None where all are the same."""
    # Only needed for changed evidence.
    from critiqor.storage.event_merge import merged_events
    from critiqor.storage.redaction import Redactor

    journal = paths.journal_path(head.run_id)
    if head.cut is None or not journal.exists():
        return None
    try:
        log = [event for event in load(paths, head.run_id).event_log if isinstance(event, dict)]
        lifecycle = [event for event in log if event.get("source_layer") == "supervisor"][: head.cut.lifecycle_events]
        recorded = merged_events(journal, lifecycle, Redactor(b""), limit=head.cut.journal_bytes)
        lines = (_Line(0, _untagged(encode(event))) for event in recorded)
        found = (_Line(offset, _untagged(line)) for offset, line in _event_lines(document))
        where = _difference(found, lines, events)
    except (OSError, BrokenRecordError):
        return None
    return f"{where} (compared with {journal.name})" if where else None


def _untagged(line: bytes) -> bytes:
    """Return an event without the tags of redacted secrets: their key is deleted when the run is completed."""
    return re.sub(rb"\[redacted:[^\]]*\]", b"[redacted]", line)


def _difference(changed: Iterable[_Line], original: Iterable[_Line], events: int) -> str | None:
    """Describe the first event of `changed` that differs from `original`; None where all sealed events are the same."""
    # A record ends with one more transition than was sealed.
    pairs = zip_longest(changed, islice(original, events))
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
    with _opened(path) as file:
        yield from _lines_of(file, len(file.readline()))


def _opened(path: Path) -> BinaryIO:
    return open_regular_file(path, buffering=1 << 18)


def _lines_of(file: BinaryIO, offset: int) -> Iterator[_Line]:
    """Read the lines of an open file that contain one event each, from this offset on."""
    for line in file:
        if line.startswith((b"]", b"}")):
            return
        yield _Line(offset, line.rstrip(b",\n"))
        offset += len(line)


def _name(line: bytes) -> str:
    name = _event_id(line)
    return f" ({name})" if name is not None else ""


def _event_id(line: bytes) -> str | None:
    try:
        event = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    name = event.get("event_id") if isinstance(event, dict) else None
    return name if isinstance(name, str) else None
