"""Diagnosing evidence, whatever holds it: a run, a session.json that lies anywhere, a trace from elsewhere.

The evidence is never changed, and diagnosing it again is always possible.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from critiqor.errors import BrokenRecordError, CritiqorError, NoActiveSessionError, UsageError
from critiqor.importers import ImportedTrace
from critiqor.model import (
    EVIDENCE_SCHEMA,
    Coverage,
    Diagnosis,
    Event,
    Metadata,
    Severity,
)
from critiqor.model.event import place_of
from critiqor.model.integrity import Proof
from critiqor.model.report import RunSummary
from critiqor.model.timeline import TimelineSummary
from critiqor.run.investigation import Investigation
from critiqor.run.lifecycle import DEFAULT_RUNS_DIR, evidence_events, seal_aborted
from critiqor.storage import SessionPaths, exclusive, paths_for
from critiqor.storage import run_record as records
from critiqor.storage.coverage import CoverageCounter
from critiqor.storage.normalization import normalize_plugin_event
from critiqor.storage.redaction import Redactor
from critiqor.storage.seal import file_digest
from critiqor.storage.session_document import read_coverage, read_sealed_events
from critiqor.storage.verification import proof_of
from critiqor.timeline import Timing

MOST_CITED = 8


class TraceFinding(msgspec.Struct, frozen=True):
    """One finding of a trace, in the numbers of that trace."""

    type: str
    severity: Severity
    first_bad_step: int | None
    event_i: list[int]


class TraceVerdict(msgspec.Struct, frozen=True):
    """What is said of one trace, on one line."""

    trace_id: str
    outcome: str
    trust_score: int | None
    findings: list[TraceFinding]


class Rediagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """What another diagnosis of the same evidence says differently."""

    rule_set: str
    previous_rule_set: str | None
    """Null where the run had no readable diagnosis before."""
    trust: int | None
    previous_trust: int | None
    gone: list[str]
    """Causes that are no longer found."""
    new: list[str]


class Again(msgspec.Struct, frozen=True):
    """A run that was diagnosed again."""

    record: dict[str, Any]
    """The head of its record, with the diagnosis."""
    change: Rediagnosis


def diagnose_run(run_id: str, runs_dir: str | Path = DEFAULT_RUNS_DIR) -> dict[str, Any]:
    """Diagnose a run again from its sealed evidence, which stays as it is; an aborted run is sealed first."""
    paths = paths_for(runs_dir)
    head = records.load_head(paths, run_id)
    if head["status"] in records.ACTIVE:
        raise NoActiveSessionError(f"{run_id} is not finalized yet", fix=f"critiqor finalize {run_id}")
    if head["seal"] is None:
        seal_aborted(paths, run_id)
        head = records.load_head(paths, run_id)
    document = paths.evidence_summary_path(run_id)
    if file_digest(document) != head["seal"]["digest"]:
        message = f"the evidence of {run_id} is not what was sealed, and proves nothing"
        raise BrokenRecordError(message, fix=f"critiqor verify {run_id}")
    seal, coverage = head["seal"]["digest"], read_coverage(document)
    diagnosis = diagnose_events(run_id, seal, read_sealed_events(document), coverage, paths.timeline_path(run_id))
    with exclusive(paths.lock_path):
        records.save_diagnosis(paths, run_id, diagnosis)
    return cast("dict[str, Any]", msgspec.to_builtins(diagnosis))


def diagnose_again(run_id: str, runs_dir: str | Path = DEFAULT_RUNS_DIR) -> Again:
    """The same, with what changed against the last diagnosis."""
    paths = paths_for(runs_dir)
    try:
        before: Diagnosis | None = records.load_diagnosis(paths, run_id)
    except CritiqorError:
        before = None
    concluded = diagnose_run(run_id, runs_dir)
    return Again(
        {**records.load_head(paths, run_id), "diagnosis": concluded}, _change(before, load_diagnosed(run_id, runs_dir))
    )


def _change(before: Diagnosis | None, after: Diagnosis) -> Rediagnosis:
    causes = {finding.cause for finding in after.failure_analysis.findings}
    known = {finding.cause for finding in before.failure_analysis.findings} if before is not None else causes
    return Rediagnosis(
        rule_set=after.rule_set_version,
        previous_rule_set=before.rule_set_version if before is not None else None,
        trust=after.trust_score,
        previous_trust=before.trust_score if before is not None else None,
        gone=sorted(known - causes),
        new=sorted(causes - known),
    )


def run_timeline(run_id: str, runs_dir: str | Path = DEFAULT_RUNS_DIR) -> TimelineSummary:
    """What OpenClaw told about the timing of a run, with the turns split by what the recorder saw of them."""
    paths = paths_for(runs_dir)
    head = records.load_head(paths, run_id)
    # What OpenClaw wrote after the evidence was sealed belongs to it no more than what it did then.
    limit = head["cut"].get("timeline_bytes") if head["seal"] and head["cut"] else None
    account = Timing(paths.timeline_path(run_id), limit)
    for event in evidence_events(run_id, runs_dir):
        account.observe(event)
    return account.summary()


def load_diagnosis(run_id: str, runs_dir: str | Path = DEFAULT_RUNS_DIR) -> dict[str, Any]:
    """What was concluded last from the evidence of a run."""
    return cast("dict[str, Any]", msgspec.to_builtins(records.load_diagnosis(paths_for(runs_dir), run_id)))


def load_diagnosed(run_id: str, runs_dir: str | Path = DEFAULT_RUNS_DIR) -> Diagnosis:
    """What was concluded last from the sealed evidence of a run, to reason about.

    Where nothing was, or from other evidence than what is sealed, the error names the command that changes that.
    """
    paths = paths_for(runs_dir)
    return _diagnosed(paths, records.load_head(paths, run_id))


def load_proof(run_id: str, runs_dir: str | Path = DEFAULT_RUNS_DIR) -> Proof:
    """Whether the evidence of a run is still what was sealed and diagnosed; reads all of it once, as a stream."""
    paths = paths_for(runs_dir)
    return proof_of(paths, records.load_head(paths, run_id))


def run_summaries(runs_dir: str | Path = DEFAULT_RUNS_DIR) -> list[RunSummary]:
    """Every run of a folder with what was concluded from it, in order of time. One that is broken hides no other."""
    paths = paths_for(runs_dir)
    cases = [_case_file(paths, run_id) for run_id in paths.run_ids()]
    return sorted(cases, key=lambda case: case.created_at or "")


def _case_file(paths: SessionPaths, run_id: str) -> RunSummary:
    known: dict[str, Any] = {"run_id": run_id}
    try:
        head = records.load_head(paths, run_id)
        known["created_at"] = head["timestamps"]["created_at"]
        known["metadata"] = msgspec.convert(head["metadata"], Metadata)
        return RunSummary(**known, diagnosis=_diagnosed(paths, head))
    except CritiqorError as error:
        return RunSummary(**known, undiagnosed=error.message, fix=error.fix)
    except OSError as error:
        return RunSummary(**known, undiagnosed=str(error))


def _diagnosed(paths: SessionPaths, head: Mapping[str, Any]) -> Diagnosis:
    run_id, seal = head["run_id"], head["seal"]
    if seal is None:
        fix = f"critiqor diagnose {run_id}" if head["status"] == "ABORTED" else f"critiqor finalize {run_id}"
        raise NoActiveSessionError(f"{run_id} is {head['status']} and not diagnosed yet", fix=fix)
    diagnosis = records.load_diagnosis(paths, run_id)
    if diagnosis.evidence_digest != seal["digest"]:
        message = f"the diagnosis of {run_id} was made from other evidence than what is sealed"
        raise BrokenRecordError(message, fix=f"critiqor diagnose {run_id}")
    return diagnosis


def diagnose_events(
    run_id: str, digest: str, events: Iterable[Event], coverage: Coverage, timeline: Path | None = None
) -> Diagnosis:
    """The diagnosis of these events, and of as much of the timeline as was sealed with them."""
    investigation = Investigation(timeline, coverage.timeline.bytes if coverage.timeline is not None else None)
    for event in events:
        investigation.observe(event)
    return investigation.conclude(run_id, digest, coverage)


def diagnose_document(document: Path) -> Diagnosis:
    """The diagnosis of a session.json that lies anywhere, sealed or not; nothing is written."""
    head = _head_of(document)
    digest = file_digest(document) or ""
    try:
        return diagnose_events(head.run_id, digest, read_sealed_events(document), read_coverage(document))
    except (BrokenRecordError, msgspec.DecodeError, UnicodeDecodeError):
        pass  # not as it was sealed, or never sealed: read as any other JSON
    census = CoverageCounter()
    events = [msgspec.convert(normalize_plugin_event(event), Event) for event in head.events if isinstance(event, dict)]
    for event in events:
        census.count(event)
    return diagnose_events(head.run_id, digest, events, census.build_coverage(Redactor(b"")))


class _Document(msgspec.Struct):
    schema_version: str
    run_id: str
    events: list[object]


def _head_of(document: Path) -> _Document:
    try:
        content = msgspec.json.decode(document.read_bytes(), type=_Document)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{document.name} is no evidence of a run: {error}", fix="critiqor import FILE") from error
    if content.schema_version != EVIDENCE_SCHEMA:
        raise UsageError(f"{document.name} is of {content.schema_version}, and this reads {EVIDENCE_SCHEMA}")
    return content


def is_evidence(document: Path) -> bool:
    """Whether a file looks like a session.json, sealed or not."""
    with document.open("rb") as file:
        start = file.read(4096)
    return json.dumps(EVIDENCE_SCHEMA).encode() in start


def diagnose_trace(trace: ImportedTrace) -> Diagnosis:
    """The diagnosis of a run that was recorded elsewhere; nothing is written."""
    coverage = Coverage(agent_events=len(trace.events), imported_from=trace.format, notes=trace.notes)
    return diagnose_events(trace.trace_id, "", trace.events, coverage)


def trace_verdict(trace: ImportedTrace) -> TraceVerdict:
    """What is said of a trace, in the numbers of its own events."""
    diagnosis = diagnose_trace(trace)
    findings = [
        TraceFinding(
            finding.type,
            finding.severity,
            _number(finding.first_bad_step),
            [number for event_id in finding.evidence if (number := _number(event_id)) is not None][:MOST_CITED],
        )
        for finding in diagnosis.failure_analysis.findings
    ]
    return TraceVerdict(trace.trace_id, diagnosis.outcome.state, diagnosis.trust_score, findings)


def _number(event_id: str | None) -> int | None:
    place = place_of(event_id) if event_id else None
    return place.sequence - 1 if place is not None else None
