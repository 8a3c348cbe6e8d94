"""From events to a diagnosis: one pass over the evidence, then the detectors, then the scores.

Every lost point of trust belongs to a finding. Damage to the collector lowers confidence, never trust; and where the
agent was not observed there is no trust score at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import fsum

import msgspec

from critiqor.diagnosis.analyses import context_analysis, latency_analysis, memory_analysis
from critiqor.diagnosis.causal_graph import causal_graph
from critiqor.diagnosis.cost import Ledger
from critiqor.diagnosis.detectors import (
    FAILURE_TYPES,
    detect_in_recording,
    detect_in_run,
    detect_in_session,
    detect_in_timing,
)
from critiqor.diagnosis.detectors.timeout import is_timeout
from critiqor.diagnosis.draft import Draft, cite
from critiqor.diagnosis.playbook import playbook
from critiqor.diagnosis.recording import Recording
from critiqor.diagnosis.scoring import OF_THE_RECORDER, confidence_lost, readiness, trust_points
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
from critiqor.model.sanitize import sanitize_line
from critiqor.model.timeline import TimelineSummary
from critiqor.spans.calls import ModelCall

ENGINE_VERSION = "1.0.0"
RULE_SET_VERSION = "3"
# 1: first full set of detectors.
# 2: latency_stall, slow_startup, slow_provider and child_process_failure.
# 3: cost_explosion keeps its cause whatever the steps are called that it names; what was not observed comes first; a
# run that was cut off is to be run again.
MOST_FINDINGS = 200
"""Findings that are told; by then no point of trust is left, and nobody reads on."""
_TYPES = list(FAILURE_TYPES)


class Diagnoser:
    """Sees every event once, then concludes."""

    def __init__(self) -> None:
        self._recording = Recording()
        self._ledger = Ledger()

    def observe(self, event: Event) -> None:
        """Take in one event, in order."""
        self._recording.observe(event)
        if event.source_layer != "supervisor":
            self._ledger.observe(event)

    def conclude(
        self,
        run_id: str,
        evidence_digest: str,
        coverage: Coverage,
        generated_at: str,
        timing: TimelineSummary | None = None,
    ) -> Diagnosis:
        """The diagnosis of everything observed, and of the timing that was told beside it."""
        recording = self._recording
        recording.coverage = coverage
        runs = recording.runs
        waste = _Waste()
        drafts = [draft for run in runs for draft in detect_in_run(run)]
        drafts += [draft for session in recording.trail.sessions for draft in detect_in_session(session)]
        drafts += detect_in_recording(recording, drafts)
        if timing is not None:
            drafts += detect_in_timing(timing, recording, drafts)
        causes = _by_cause(drafts)
        observed = coverage.agent_events > 0
        findings = _scored([_finding(cause, same, waste) for cause, same in causes.items()], observed=observed)
        trust = 100 - sum(finding.impact.trust_points for finding in findings) if observed else None
        lost = confidence_lost(coverage, hollow=recording.is_hollow)
        sure = 100 - sum(lost.values())
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
            confidence_score=sure,
            confidence_lost=lost,
            readiness=readiness(trust, sure, findings, unfinished=recording.was_cut_short),
            headline=worst.title if worst else f"No failure was found in {coverage.agent_events} events of the agent.",
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
    """What findings wasted; a model call that two of them name is counted once in the sum."""

    def __init__(self) -> None:
        self._counted: dict[str, ModelCall] = {}

    @property
    def tokens(self) -> int | None:
        return _tokens(self._counted.values())

    @property
    def money(self) -> float | None:
        return _money(self._counted.values())

    def of(self, drafts: list[Draft]) -> Impact:
        """What one finding wasted, wherever it happened."""
        steps = {step.order: step for draft in drafts for step in draft.wasted_steps}
        asked = [step.model_call for step in steps.values() if step.model_call is not None]
        calls = {call.event_id: call for call in (*asked, *(call for draft in drafts for call in draft.wasted_calls))}
        if not steps and not calls:
            return Impact()
        self._counted |= calls
        return Impact(
            wasted_tokens=_tokens(calls.values()),
            wasted_usd=_money(calls.values()),
            wasted_ms=sum(step.duration_ms for step in steps.values())
            + sum(call.duration_ms for call in calls.values()),
        )


def _tokens(calls: Iterable[ModelCall]) -> int | None:
    told = [call.tokens for call in calls if call.tokens is not None]
    return sum(told) if told else None


def _money(calls: Iterable[ModelCall]) -> float | None:
    told = [call.cost_usd for call in calls if call.cost_usd is not None]
    return round(fsum(told), 6) if told else None


def _by_cause(drafts: list[Draft]) -> dict[str, list[Draft]]:
    """The same cause in several agent runs is one finding."""
    causes: dict[str, list[Draft]] = {}
    for draft in drafts:
        causes.setdefault(sanitize_line(":".join((draft.type, *draft.about))), []).append(draft)
    return causes


def _finding(cause: str, drafts: list[Draft], waste: _Waste) -> Finding:
    """What several agent runs have in common, as the worst of them tells it."""
    worst = min(drafts, key=_gravity)
    runs = {draft.scope for draft in drafts}
    steps = [draft.first_bad_step for draft in drafts if draft.first_bad_step is not None]
    where = f" The same in {len(runs)} agent runs; this is the worst of them." if len(runs) > 1 else ""
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
        first_bad_step=min(steps, default=None),
        causal_chain=[CausalStep(step.event_id, sanitize_line(step.happened), step.relation) for step in worst.chain],
        impact=waste.of(drafts),
        recommendation=sanitize_line(worst.recommendation),
        verification=sanitize_line(worst.verification),
    )


def _common(scopes: set[Scope]) -> Scope:
    """What several places have in common: an agent run, its session, or nothing but the recording."""
    if len(scopes) == 1:
        return next(iter(scopes))
    sessions = {scope.session_key for scope in scopes}
    return Scope(next(iter(sessions))) if len(sessions) == 1 else Scope()


def _gravity(draft: Draft | Finding) -> tuple[int, int, int, str]:
    place = draft.first_bad_step or ""
    return (SEVERITIES.index(draft.severity), _TYPES.index(draft.type), -draft.confidence, place)


def _scored(findings: list[Finding], *, observed: bool) -> list[Finding]:
    """The worst first, numbered, with the points of trust that each takes of the hundred.

    Where no agent was observed, that comes before everything else, and there is no trust to take points of.
    """
    left = 100
    scored = []
    order = sorted(findings, key=lambda finding: (*_gravity(finding), finding.cause))
    if not observed:
        order.sort(key=lambda finding: finding.type not in OF_THE_RECORDER)
    for number, finding in enumerate(order[:MOST_FINDINGS], 1):
        points = trust_points(finding.type, finding.severity, left) if observed else 0
        left -= points
        impact = msgspec.structs.replace(finding.impact, trust_points=points)
        scored.append(msgspec.structs.replace(finding, id=f"finding_{number:03d}", impact=impact))
    return scored


_SUPERVISED = "what the supervisor saw of the process"


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
        return Outcome("still_running", "no end of the process was seen")
    ended = max((run for run in recording.runs if run.last_end), key=lambda run: run.last_order, default=None)
    if ended is None or ended.last_end is None:
        return Outcome("unknown", "no process was supervised, and no agent reported its end")
    said = "how the agent reported its own end"
    if is_timeout(ended.last_end):
        return Outcome("timed_out", said)
    if ended.was_stopped:
        return Outcome("interrupted", said)
    return Outcome("failed" if ended.last_end.status == "error" else "completed", said)
