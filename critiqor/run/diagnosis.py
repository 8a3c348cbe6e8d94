"""Diagnosing evidence: a recorded run, a session.json anywhere, or a trace from another recorder.

The evidence is never changed, and it can be diagnosed again at any time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from critiqor.diagnosis import ENGINE_VERSION, RULE_SET_VERSION, Diagnoser
from critiqor.diagnosis.extension_findings import add_extensions
from critiqor.errors import BrokenRecordError, CritiqorError, NoActiveSessionError
from critiqor.extensions.entry_points import installed
from critiqor.model import (
    ClaimStatus,
    ContractResult,
    Coverage,
    Diagnosis,
    Event,
    EventType,
    Metrics,
    Readiness,
    Severity,
    TaskVerdict,
    iso_from_ms,
    now_ms,
)
from critiqor.model.diagnosis import count_claims
from critiqor.model.event import place_of
from critiqor.model.formatting import format_sessions
from critiqor.model.verdict import Check
from critiqor.policy.contract import Contract
from critiqor.policy.contracts import contract_checker, evaluate_contracts
from critiqor.run.finalization import seal_aborted
from critiqor.run.importing import import_facts
from critiqor.run.segments.carried import read_sealed_carried
from critiqor.run.store import Run
from critiqor.storage import exclusive
from critiqor.storage import run_record as records
from critiqor.storage.coverage import CoverageCounter
from critiqor.storage.redaction import Redactor
from critiqor.storage.seals.diagnosis_seal import write_diagnosis
from critiqor.storage.seals.digests import file_digest, sealed_file_problems
from critiqor.storage.session_document import SessionDocumentWriter, events_containing, read_sealed_events
from critiqor.timeline import Timing

if TYPE_CHECKING:
    from critiqor.importers import ImportedTrace

MAX_CITED = 8
"""Maximum number of events that are cited for one finding of a trace."""


class TraceFinding(msgspec.Struct, frozen=True):
    """One finding in a trace; events are numbered as in that trace."""

    type: str
    severity: Severity
    first_bad_step: int | None
    event_i: list[int]


class TraceVerdict(msgspec.Struct, frozen=True, omit_defaults=True):
    """The diagnosis of one trace, short enough for one line."""

    trace_id: str
    outcome: str
    trust_score: int | None
    """Null if no work of an agent was understood."""
    confidence_score: int
    readiness: Readiness
    task: TaskVerdict
    """Whether the agent did what it was asked to do."""
    claims: dict[ClaimStatus, int]
    """Number of the agent's claims by status."""
    findings: list[TraceFinding]
    notes: list[str]
    """What could not be read or is unknown, in sentences."""
    sessions: str | None = None
    """The worst session, whose trust it is, and how the others are judged; left out if there are not several."""


class Rediagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """How a new diagnosis of the same evidence differs from the previous one."""

    rule_set: str
    previous_rule_set: str | None
    """Null if the run had no readable diagnosis before."""
    trust: int | None
    previous_trust: int | None
    gone: list[str]
    """Causes that are no longer found."""
    new: list[str]


class RunDiagnosis:
    """Diagnoses a run: passes each event to the diagnoser and to the timing of its timeline file, as far as sealed."""

    def __init__(
        self,
        timeline: Path | None = None,
        sealed_bytes: int | None = None,
        contracts: Sequence[Contract] = (),
        carried: Iterable[Event] = (),
    ) -> None:
        """`carried` are events of earlier segments."""
        self._checker = contract_checker(contracts)
        self._diagnoser = Diagnoser([self._checker] if self._checker is not None else ())
        self._diagnoser.carry_over(carried)
        self._timing = Timing(timeline if sealed_bytes is not None else None, sealed_bytes)
        self._events = 0

    def observe(self, event: Event) -> None:
        """Pass the next event of the run to the diagnoser and to the timing."""
        self._events += 1
        self._diagnoser.observe(event)
        self._timing.observe(event)

    def conclude(
        self, run_id: str, digest: str, coverage: Coverage, evidence: Path | None = None, events: Iterable[Event] = ()
    ) -> Diagnosis:
        """Return the diagnosis of the run, made now from its observed events and its timeline file.

        Detectors of extensions read the events from `evidence`, a sealed session.json; without it they do not run. What
        is looked up once more is looked up there, else in `events`.
        """
        values = self._diagnoser.values_to_look_up()
        if values:
            self._diagnoser.look_up(events if evidence is None else events_containing(evidence, values))
        diagnosis = self._diagnoser.conclude(run_id, digest, coverage, iso_from_ms(now_ms()), self._timing.summary())
        if self._checker is not None:
            diagnosis.contracts = self._checker.results()
            notes = (each.note for each in diagnosis.contracts if each.note is not None)
            read = diagnosis.coverage
            diagnosis.coverage = msgspec.structs.replace(read, notes=[*read.notes, *notes])
        extensions = installed("critiqor.detectors") if evidence is not None else []
        if evidence is None or not extensions:
            return diagnosis
        from critiqor.extensions.detection import run_detectors

        return add_extensions(diagnosis, run_detectors(extensions, evidence, self._events))


def contract_results(run: Run, diagnosis: Diagnosis, contracts: Sequence[Contract]) -> list[ContractResult]:
    """Return the results of contracts in the diagnosis of a run, if it was made with them; else those of its events."""
    known = {msgspec.json.encode(each.definition): each for each in diagnosis.contracts}
    wanted = [msgspec.json.encode(contract) for contract in contracts]
    if all(each in known for each in wanted):
        return [known[each] for each in wanted]
    return evaluate_contracts(run.events(), contracts)


def _stored_contracts(diagnosis: Diagnosis) -> list[Contract]:
    """Return the contracts that a diagnosis was made with; none if they were changed and are not valid any more."""
    try:
        contracts = [msgspec.convert(each.definition, Contract) for each in diagnosis.contracts]
        contract_checker(contracts)
    except ValueError:
        return []
    return contracts


def diagnose(run: Run, contracts: Sequence[Contract] | None = None) -> Diagnosis:
    """Diagnose a run again from its sealed evidence, and save the diagnosis. An aborted run is sealed first.

    Without `contracts`, those of its last diagnosis are checked again.
    """
    head = run.head()
    if head.status in records.ACTIVE:
        raise NoActiveSessionError(f"{run.id} is not finalized yet", fix=f"critiqor finalize {run.id}")
    if head.seal is None:
        seal_aborted(run)
    diagnosis = diagnose_unsaved(run, contracts)
    with exclusive(run.paths.lock_path):
        write_diagnosis(run.diagnosis_path, diagnosis)
        records.rewrite_diagnosis(run.paths, run.id, diagnosis)
    return diagnosis


def diagnose_unsaved(run: Run, contracts: Sequence[Contract] | None = None) -> Diagnosis:
    """Diagnose a sealed run again, as `diagnose` does. Nothing is written."""
    seal = run.head().seal
    if seal is None or file_digest(run.evidence_path) != seal.digest or _was_carried_file_changed(run):
        message = f"the evidence of {run.id} was changed after sealing, so it is not diagnosed"
        raise BrokenRecordError(message, fix=f"critiqor verify {run.id}")
    if contracts is None:
        before = _last_diagnosis(run)
        contracts = _stored_contracts(before) if before is not None else ()
    return _diagnose_sealed(run, seal.digest, contracts)


def _was_carried_file_changed(run: Run) -> bool:
    return bool(sealed_file_problems(run.paths.carried_path(run.id), run.coverage().carried))


def diagnose_again(run: Run, contracts: Sequence[Contract] | None = None) -> Rediagnosis:
    """Diagnose a run again. Return how the result differs from the previous diagnosis."""
    before = _last_diagnosis(run)
    return _changes(before, diagnose(run, contracts))


def _last_diagnosis(run: Run) -> Diagnosis | None:
    try:
        return records.load_diagnosis(run.paths, run.id)
    except CritiqorError:
        return None


def check_diagnosis(run: Run) -> Check:
    """Diagnose the sealed evidence of a run once more, and compare the result with diagnosis.json. Nothing is written.

    The same rules make the same diagnosis of the same evidence, so this finds every change without a signature.
    Detectors of extensions are not run, and their findings are not compared.
    """
    fix = f"critiqor diagnose {run.id}"
    try:
        stored = records.load_diagnosis(run.paths, run.id)
    except CritiqorError as error:
        return Check(name="rediagnosis", state="not checked", explanation=error.message, fix=error.fix)
    made_by, here = (stored.rule_set_version, stored.engine_version), (RULE_SET_VERSION, ENGINE_VERSION)
    if made_by != here:
        made, now = (f"rule set {rules} of version {version}" for rules, version in (made_by, here))
        text = f"diagnosis.json was made by {made}, this is {now}, so it cannot be compared with a new diagnosis"
        return Check(name="rediagnosis", state="not checked", explanation=text, fix=fix)
    coverage = run.coverage()
    timeline_bytes = coverage.timeline.bytes if coverage.timeline is not None else None
    carried = read_sealed_carried(run.paths.carried_path(run.id), coverage.carried)
    diagnoser = RunDiagnosis(run.timeline_path, timeline_bytes, _stored_contracts(stored), carried)
    for event in run.events():
        diagnoser.observe(event)
    made_now = diagnoser.conclude(run.id, stored.evidence_digest, coverage, events=run.events())
    if (name := _differing_member(stored, made_now)) is not None:
        text = f"diagnosis.json is not what the sealed evidence leads to: {name} differs"
        return Check(name="rediagnosis", state="failed", explanation=text, fix=fix)
    text = "the sealed evidence leads to the same diagnosis"
    if stored.extensions:
        text += "; findings of extensions were not compared"
    return Check(name="rediagnosis", state="passed", explanation=text)


def _differing_member(stored: Diagnosis, made_now: Diagnosis) -> str | None:
    """Return the first member in which two diagnoses of the same evidence differ, without those of extensions."""
    analysis = stored.failure_analysis
    left_out = made_now.failure_analysis.left_out if stored.extensions else analysis.left_out
    own = msgspec.structs.replace(
        stored,
        generated_at=made_now.generated_at,
        failure_analysis=msgspec.structs.replace(analysis, findings=analysis.own_findings, left_out=left_out),
        extensions=[],
    )
    before, after = msgspec.to_builtins(own), msgspec.to_builtins(made_now)
    return next((name for name in before if before[name] != after[name]), None)


def _changes(before: Diagnosis | None, after: Diagnosis) -> Rediagnosis:
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


def _diagnose_sealed(run: Run, digest: str, contracts: Sequence[Contract]) -> Diagnosis:
    """Diagnose the sealed evidence of a run together with its timeline file, as far as that was sealed."""
    coverage = run.coverage()
    timeline_bytes = coverage.timeline.bytes if coverage.timeline is not None else None
    carried = read_sealed_carried(run.paths.carried_path(run.id), coverage.carried)
    diagnoser = RunDiagnosis(run.timeline_path, timeline_bytes, contracts, carried)
    for event in read_sealed_events(run.evidence_path):
        diagnoser.observe(event)
    return diagnoser.conclude(run.id, digest, coverage, run.evidence_path)


def _diagnose_events(
    run_id: str, digest: str, events: list[Event], coverage: Coverage, contracts: Sequence[Contract]
) -> Diagnosis:
    """Diagnose events that are in no sealed session.json; for the detectors of extensions, one is written."""
    diagnoser = RunDiagnosis(contracts=contracts)
    for event in events:
        diagnoser.observe(event)
    if not installed("critiqor.detectors"):
        return diagnoser.conclude(run_id, digest, coverage, events=events)
    with tempfile.TemporaryDirectory() as folder:
        document = Path(folder, "session.json")
        with document.open("wb") as file:
            writer = SessionDocumentWriter(file, run_id)
            for event in events:
                writer.add_event(event)
            writer.finish(Metrics(), coverage)
        return diagnoser.conclude(run_id, digest, coverage, document)


def diagnose_trace(trace: ImportedTrace, digest: str = "", contracts: Sequence[Contract] = ()) -> Diagnosis:
    """Diagnose events that are no run of this folder: a trace from another recorder or folder. Nothing is written."""
    if trace.coverage is not None:
        return _diagnose_events(trace.trace_id, digest, trace.events, trace.coverage, contracts)
    counter = CoverageCounter()
    for event in trace.events:
        counter.count(event)
    counter.count(Event(event_type=EventType.RUN_IMPORTED, source_layer="supervisor", payload=import_facts(trace)))
    coverage = counter.build_coverage(Redactor(b""))
    return _diagnose_events(trace.trace_id, digest, trace.events, coverage, contracts)


def trace_verdict(trace: ImportedTrace, contracts: Sequence[Contract] = ()) -> TraceVerdict:
    """Diagnose such a trace in one line, citing its events by their numbers. Nothing is written."""
    diagnosis = diagnose_trace(trace, contracts=contracts)
    findings = [
        TraceFinding(
            finding.type,
            finding.severity,
            _number(finding.first_bad_step),
            [number for event_id in finding.evidence if (number := _number(event_id)) is not None][:MAX_CITED],
        )
        for finding in diagnosis.failure_analysis.findings
    ]
    return TraceVerdict(
        trace_id=trace.trace_id,
        outcome=diagnosis.outcome.state,
        trust_score=diagnosis.trust_score,
        confidence_score=diagnosis.confidence_score,
        readiness=diagnosis.readiness,
        task=diagnosis.outcome.task.verdict,
        claims=count_claims(diagnosis.claims),
        findings=findings,
        notes=[*trace.notes, *(each.note for each in diagnosis.contracts if each.note is not None)],
        sessions=format_sessions(diagnosis),
    )


def _number(event_id: str | None) -> int | None:
    place = place_of(event_id) if event_id else None
    return place.sequence - 1 if place is not None else None
