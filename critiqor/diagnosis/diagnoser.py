"""From events to a diagnosis: one pass over the evidence, then the detectors, then the scores.

Every lost point of trust belongs to a finding. What the recorder missed lowers confidence, never trust; and where the
agent was not observed there is no trust score at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import fsum

import msgspec

from critiqor.diagnosis.analyses import context_analysis, latency_analysis, memory_analysis
from critiqor.diagnosis.causal_graph import causal_graph
from critiqor.diagnosis.cost import Ledger
from critiqor.diagnosis.detection import Detection
from critiqor.diagnosis.detectors import FAILURE_TYPES
from critiqor.diagnosis.detectors.timeout import is_timeout
from critiqor.diagnosis.draft import Draft, cite
from critiqor.diagnosis.playbook import playbook
from critiqor.diagnosis.recording import Recording
from critiqor.diagnosis.scoring import RECORDER_TYPES, confidence_lost, readiness, trust_points
from critiqor.model import (
    SEVERITIES,
    CausalStep,
    Coverage,
    Diagnosis,
    Event,
    FailureAnalysis,
    Finding,
    Impact,
    Outcome,
    PrimaryDiagnosis,
    Scope,
)
from critiqor.model.formatting import counted
from critiqor.model.sanitize import sanitize_line
from critiqor.model.timeline import TimelineSummary
from critiqor.spans.calls import ModelCall

ENGINE_VERSION = "1.0.0"
RULE_SET_VERSION = "3"
# 1: first full set of detectors.
# 2: latency_stall, slow_startup, slow_provider and child_process_failure.
# 3: the cause of cost_explosion no longer depends on which calls it names; inspection_incomplete comes first where no
# agent was observed; a run that was cut off is recommended to be run again.
MAX_FINDINGS = 200
"""Findings that are listed; by then no point of trust is left."""
_TYPES = list(FAILURE_TYPES)


class Diagnoser:
    """Observes every event once, and diagnoses what it has observed."""

    def __init__(self) -> None:
        self._recording = Recording()
        self._ledger = Ledger()
        self._detection = Detection(self._recording)

    def observe(self, event: Event) -> None:
        """Take in one event, in order."""
        self._recording.observe(event)
        if event.source_layer != "supervisor":
            self._ledger.observe(event)
            self._detection.observe()

    def findings(self, coverage: Coverage) -> list[Finding]:
        """Return the findings so far, the worst first. Cheap enough to be called every few events.

        A tool call is judged once it has returned, and what began after it once it has.
        """
        self._recording.coverage = coverage
        causes = _by_cause(self._detection.findings())
        waste = _Waste()
        found = [_finding(cause, same, waste) for cause, same in causes.items()]
        return _scored(found, observed=coverage.agent_events > 0)

    def conclude(
        self,
        run_id: str,
        evidence_digest: str,
        coverage: Coverage,
        generated_at: str,
        timing: TimelineSummary | None = None,
    ) -> Diagnosis:
        """Return the diagnosis of everything observed, and of the timing that OpenClaw's timeline shows."""
        recording = self._recording
        recording.coverage = coverage
        runs = recording.runs
        waste = _Waste()
        drafts = self._detection.conclude(timing)
        causes = _by_cause(drafts)
        observed = coverage.agent_events > 0
        findings = _scored([_finding(cause, same, waste) for cause, same in causes.items()], observed=observed)
        trust = 100 - sum(finding.impact.trust_points for finding in findings) if observed else None
        lost = confidence_lost(coverage, hollow=recording.is_hollow)
        confidence = 100 - sum(lost.values())
        worst = findings[0] if findings else None
        graph = causal_graph(findings)
        cost = self._ledger.analysis(runs)
        cost.wasted_tokens, cost.wasted_usd = waste.tokens, waste.money
        return Diagnosis(
            run_id=run_id,
            generated_at=generated_at,
            engine_version=ENGINE_VERSION,
            rule_set_version=RULE_SET_VERSION,
            evidence_digest=evidence_digest,
            outcome=msgspec.structs.replace(_outcome(recording), cut_short=recording.was_cut_short),
            trust_score=trust,
            confidence_score=confidence,
            confidence_lost=lost,
            readiness=readiness(trust, confidence, findings, unfinished=recording.was_cut_short),
            headline=worst.title if worst else f"No failure found in {counted(coverage.agent_events, 'agent event')}.",
            primary_diagnosis=PrimaryDiagnosis(worst.type, worst.id, worst.severity, worst.title) if worst else None,
            failure_analysis=FailureAnalysis(findings, left_out=len(causes) - len(findings)),
            causal_graph=graph,
            cost_analysis=cost,
            memory_analysis=memory_analysis(runs),
            latency_analysis=latency_analysis(runs, recording.process_start, recording.process_end),
            context_analysis=context_analysis(runs),
            timeline=timing,
            playbook=playbook(run_id, findings, graph),
        )


class _Waste:
    """What findings wasted. A model call that several of them name is counted once in the total."""

    def __init__(self) -> None:
        self._counted: dict[str, ModelCall] = {}

    @property
    def tokens(self) -> int | None:
        return _tokens(self._counted.values())

    @property
    def money(self) -> float | None:
        return _money(self._counted.values())

    def of(self, drafts: list[Draft]) -> Impact:
        """Return what one finding wasted, wherever it happened."""
        tool_calls = {call.order: call for draft in drafts for call in draft.wasted_tool_calls}
        requested_by = [call.model_call for call in tool_calls.values() if call.model_call is not None]
        wasted = (call for draft in drafts for call in draft.wasted_model_calls)
        model_calls = {call.event_id: call for call in (*requested_by, *wasted)}
        if not tool_calls and not model_calls:
            return Impact()
        self._counted |= model_calls
        return Impact(
            wasted_tokens=_tokens(model_calls.values()),
            wasted_usd=_money(model_calls.values()),
            wasted_ms=sum(call.duration_ms for call in tool_calls.values())
            + sum(call.duration_ms for call in model_calls.values()),
        )


def _tokens(calls: Iterable[ModelCall]) -> int | None:
    known = [call.tokens for call in calls if call.tokens is not None]
    return sum(known) if known else None


def _money(calls: Iterable[ModelCall]) -> float | None:
    known = [call.cost_usd for call in calls if call.cost_usd is not None]
    return round(fsum(known), 6) if known else None


def _by_cause(drafts: list[Draft]) -> dict[str, list[Draft]]:
    """Group drafts by cause: the same cause in several agent runs is one finding."""
    causes: dict[str, list[Draft]] = {}
    for draft in drafts:
        causes.setdefault(sanitize_line(":".join((draft.type, *draft.about))), []).append(draft)
    return causes


def _finding(cause: str, drafts: list[Draft], waste: _Waste) -> Finding:
    """Return the finding of all drafts with one cause, described as in the worst of them."""
    worst = min(drafts, key=_gravity)
    runs = {draft.scope for draft in drafts}
    places = [draft.first_bad_step for draft in drafts if draft.first_bad_step is not None]
    where = f" This happened in {len(runs)} agent runs; the worst one is shown." if len(runs) > 1 else ""
    return Finding(
        type=worst.type,
        cause=cause,
        severity=worst.severity,
        confidence=worst.confidence,
        title=sanitize_line(worst.title),
        explanation=sanitize_line(worst.explanation) + where,
        evidence=cite(event for draft in drafts for event in draft.evidence),
        occurrences=sum(draft.occurrences for draft in drafts),
        scope=_common(runs),
        first_bad_step=min(places, default=None),
        causal_chain=[CausalStep(step.event_id, sanitize_line(step.happened), step.relation) for step in worst.chain],
        impact=waste.of(drafts),
        recommendation=sanitize_line(worst.recommendation),
        verification=sanitize_line(worst.verification),
    )


def _common(scopes: set[Scope]) -> Scope:
    """Return what scopes have in common: an agent run, its session, or only the recording."""
    if len(scopes) == 1:
        return next(iter(scopes))
    sessions = {scope.session_key for scope in scopes}
    return Scope(next(iter(sessions))) if len(sessions) == 1 else Scope()


def _gravity(draft: Draft | Finding) -> tuple[int, int, int, str]:
    place = draft.first_bad_step or ""
    return (SEVERITIES.index(draft.severity), _TYPES.index(draft.type), -draft.confidence, place)


def _scored(findings: list[Finding], *, observed: bool) -> list[Finding]:
    """Sort findings by severity, number them, and assign the points of trust that each one costs.

    Where no agent was observed, that finding comes first, and no points are assigned.
    """
    left = 100
    scored = []
    order = sorted(findings, key=lambda finding: (*_gravity(finding), finding.cause))
    if not observed:
        order.sort(key=lambda finding: finding.type not in RECORDER_TYPES)
    for number, finding in enumerate(order[:MAX_FINDINGS], 1):
        points = trust_points(finding.type, finding.severity, left) if observed else 0
        left -= points
        impact = msgspec.structs.replace(finding.impact, trust_points=points)
        scored.append(msgspec.structs.replace(finding, id=f"finding_{number:03d}", impact=impact))
    return scored


_SUPERVISED = "the supervisor observed it"
_REPORTED = "the agent reported it"


def _outcome(recording: Recording) -> Outcome:
    if recording.error_of("timeout") is not None:
        return Outcome("timed_out", _SUPERVISED)
    if recording.was_asked_to_stop:
        return Outcome("interrupted", _SUPERVISED)
    if recording.process_errors:
        return Outcome("failed", _SUPERVISED)
    if recording.process_end is not None:
        code = recording.exit_code
        return Outcome("completed" if code == 0 else "failed", f"the process ended with exit code {code}")
    if recording.process_start is not None:
        return Outcome("still_running", "the end of the process was not observed")
    ended = max((run for run in recording.runs if run.last_end), key=lambda run: run.last_order, default=None)
    if ended is None or ended.last_end is None:
        return Outcome("unknown", "no process was supervised, and the recording contains no end of an agent run")
    if is_timeout(ended.last_end):
        return Outcome("timed_out", _REPORTED)
    if ended.was_stopped:
        return Outcome("interrupted", _REPORTED)
    return Outcome("failed" if ended.last_end.status == "error" else "completed", _REPORTED)
