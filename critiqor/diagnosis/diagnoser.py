"""Builds a diagnosis from events: one pass over the evidence, then the detectors, then the scores.

Every lost trust point is assigned to a finding. Gaps in the recording lower confidence, never trust; if no agent was
observed, there is no trust score.
"""

from __future__ import annotations

import msgspec

from critiqor.diagnosis.analyses import context_analysis, latency_analysis, memory_analysis
from critiqor.diagnosis.causal_graph import causal_graph
from critiqor.diagnosis.cost import Ledger
from critiqor.diagnosis.detection import Detection
from critiqor.diagnosis.detectors import BUILT_IN
from critiqor.diagnosis.detectors.timeout import is_timeout
from critiqor.diagnosis.drafts.cited_events import cite_events
from critiqor.diagnosis.drafts.draft import Draft
from critiqor.diagnosis.playbook import playbook
from critiqor.diagnosis.recording import Recording
from critiqor.diagnosis.registry import DetectorRegistry
from critiqor.diagnosis.scoring import RECORDER_TYPES, confidence_lost, readiness, trust_points
from critiqor.diagnosis.waste import Waste, WastedCalls
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

ENGINE_VERSION = "1.0.0"
RULE_SET_VERSION = "3"
# 1: first full set of detectors.
# 2: latency_stall, slow_startup, slow_provider and child_process_failure.
# 3: the cause of cost_explosion no longer depends on which calls it names; inspection_incomplete comes first if no
# agent was observed; for a run that was cut off, the recommendation is to run it again.
MAX_FINDINGS = 200
"""Maximum number of listed findings."""
_RANKS = {type_: rank for rank, type_ in enumerate(BUILT_IN.meanings)}


class Diagnoser:
    """Observes every event of a recording once, and diagnoses the recording."""

    def __init__(self) -> None:
        self._recording = Recording()
        self._ledger = Ledger()
        self._detection = Detection(self._recording, BUILT_IN)
        self._waste: dict[str, Waste] = {}
        """Waste of each finding of the last call of `findings`, by cause."""

    def observe(self, event: Event) -> None:
        """Process the next event."""
        self._recording.observe(event)
        if event.source_layer != "supervisor":
            self._ledger.observe(event)
            self._detection.observe()
            if self._waste and event.event_type == "agent_end":
                for waste in self._waste.values():
                    waste.read_late_usage()

    def findings(self, coverage: Coverage) -> list[Finding]:
        """Return the findings so far, most severe first. Cheap enough to be called every few events.

        A tool call, and the spans that started after it, are judged once it has returned.
        """
        self._recording.coverage = coverage
        causes = _by_cause(self._detection.findings())
        self._waste = {cause: self._waste.get(cause) or Waste() for cause in causes}
        found = [_finding(cause, same, self._waste[cause]) for cause, same in causes.items()]
        return _scored(found, observed=coverage.agent_events > 0)

    def conclude(
        self,
        run_id: str,
        evidence_digest: str,
        coverage: Coverage,
        generated_at: str,
        timing: TimelineSummary | None = None,
    ) -> Diagnosis:
        """Return the diagnosis of all observed events, and of the timing in OpenClaw's timeline."""
        recording = self._recording
        recording.coverage = coverage
        runs = recording.runs
        drafts = self._detection.conclude(timing)
        waste = Waste()
        waste.update(_wasted_calls(drafts))
        causes = _by_cause(drafts)
        observed = coverage.agent_events > 0
        findings = _scored([_finding(cause, same, Waste()) for cause, same in causes.items()], observed=observed)
        trust = 100 - sum(finding.impact.trust_points for finding in findings) if observed else None
        lost = confidence_lost(coverage, hollow=recording.is_hollow)
        confidence = 100 - sum(lost.values())
        worst = findings[0] if findings else None
        graph = causal_graph(findings)
        cost = self._ledger.analysis(runs)
        cost.wasted_tokens, cost.wasted_usd = waste.tokens, _rounded(waste.cost_usd)
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


def detect(recording: Recording, detectors: DetectorRegistry) -> list[Finding]:
    """Return what the given detectors find in a complete recording: neither scored nor numbered."""
    causes = _by_cause(Detection(recording, detectors).conclude(None))
    return [_finding(cause, same, Waste()) for cause, same in causes.items()]


def _by_cause(drafts: list[Draft]) -> dict[str, list[Draft]]:
    """Group drafts by cause: the same cause in several agent runs is one finding."""
    causes: dict[str, list[Draft]] = {}
    for draft in drafts:
        causes.setdefault(sanitize_line(":".join((draft.type, *draft.about))), []).append(draft)
    return causes


def _finding(cause: str, drafts: list[Draft], waste: Waste) -> Finding:
    """Return one finding for all drafts with the same cause, described by the most severe of them."""
    worst = min(drafts, key=_severity_key)
    runs = {draft.scope for draft in drafts}
    first_steps = [draft.first_bad_step for draft in drafts if draft.first_bad_step is not None]
    waste.update(_wasted_calls(drafts))
    where = f" This happened in {len(runs)} agent runs; the worst one is shown." if len(runs) > 1 else ""
    return Finding(
        type=worst.type,
        cause=cause,
        severity=worst.severity,
        confidence=worst.confidence,
        title=sanitize_line(worst.title),
        explanation=sanitize_line(worst.explanation) + where,
        evidence=cite_events(event for draft in drafts for event in draft.evidence),
        occurrences=sum(draft.occurrences for draft in drafts),
        scope=_common(runs),
        first_bad_step=min(first_steps, default=None),
        causal_chain=[CausalStep(step.event_id, sanitize_line(step.happened), step.relation) for step in worst.chain],
        impact=_impact(waste),
        recommendation=sanitize_line(worst.recommendation),
        verification=sanitize_line(worst.verification),
    )


def _wasted_calls(drafts: list[Draft]) -> list[WastedCalls]:
    lists: list[WastedCalls] = [draft.wasted_tool_calls for draft in drafts]
    return lists + [draft.wasted_model_calls for draft in drafts]


def _impact(waste: Waste) -> Impact:
    return Impact(wasted_tokens=waste.tokens, wasted_usd=_rounded(waste.cost_usd), wasted_ms=waste.duration_ms)


def _rounded(cost_usd: float | None) -> float | None:
    return None if cost_usd is None else round(cost_usd, 6)


def _common(scopes: set[Scope]) -> Scope:
    """Return the smallest common scope: the agent run, else the session, else the whole recording."""
    if len(scopes) == 1:
        return next(iter(scopes))
    sessions = {scope.session_key for scope in scopes}
    return Scope(next(iter(sessions))) if len(sessions) == 1 else Scope()


def _severity_key(draft: Draft | Finding) -> tuple[int, int, int, str]:
    """Return a sort key: most severe first, then by failure type, confidence and place."""
    place = draft.first_bad_step or ""
    return (SEVERITIES.index(draft.severity), _RANKS.get(draft.type, len(_RANKS)), -draft.confidence, place)


def _scored(findings: list[Finding], *, observed: bool) -> list[Finding]:
    """Sort findings by severity, number them, and assign the trust points that each one costs.

    If no agent was observed, the finding about that comes first, and no points are assigned.
    """
    left = 100
    scored = []
    ordered = sorted(findings, key=lambda finding: (*_severity_key(finding), finding.cause))
    if not observed:
        ordered.sort(key=lambda finding: finding.type not in RECORDER_TYPES)
    for number, finding in enumerate(ordered[:MAX_FINDINGS], 1):
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
