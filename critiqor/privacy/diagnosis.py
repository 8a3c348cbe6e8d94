"""Anonymized diagnoses: verdict, finding types, causal chains and numbers, without quoted texts."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from critiqor.model import (
    CausalGraph,
    CausalStep,
    Claim,
    ContractResult,
    DetectorRun,
    Diagnosis,
    FailureAnalysis,
    Finding,
    FindingOrigin,
    GraphNode,
    Outcome,
    Playbook,
    PrimaryDiagnosis,
    Scope,
    SessionDiagnosis,
    TaskOutcome,
)
from critiqor.model.diagnosis import ContextAnalysis, GraphEdge, LatencyAnalysis
from critiqor.model.timeline import SpanNode, TimelineSummary, Turn
from critiqor.model.usage import CostAnalysis
from critiqor.privacy import replacements
from critiqor.privacy.replacements import WITHHELD

_REASONS = frozenset(
    (
        "no agent was observed",
        "the agent's actions were not observed",
        "imported: what the original recorder left out is unknown",
        "no hooks: size and budget of requests are unknown",
        "entries that were not understood",
        "model calls that a backend made itself",
        "results that a backend did not report",
        "records from the transcripts of a backend",
        "records that were lost",
        "requests without responses",
        "calls without results",
        "results without calls",
        "sealed while the process ran",
        "values that were cut",
        "answers in a language that is not understood",
    )
)
"""Reasons for lost confidence that identify no run."""
_Names = Mapping[str | None, str | None]
"""Names of sessions that identify no run, by session key."""


def anonymous_diagnosis(diagnosis: Diagnosis) -> Diagnosis:
    """Return a diagnosis without names, paths and texts."""
    names = {session.session_key: _session_name(session) for session in diagnosis.sessions}
    findings = [_finding(finding, names) for finding in diagnosis.failure_analysis.findings]
    titles = {finding.id: finding.title for finding in findings}
    primary = diagnosis.primary_diagnosis
    lost: dict[str, int] = {}
    for reason, points in diagnosis.confidence_lost.items():
        name = reason if reason in _REASONS else WITHHELD
        lost[name] = lost.get(name, 0) + points
    return Diagnosis(
        run_id=diagnosis.run_id,
        generated_at=replacements.timestamp(diagnosis.generated_at),
        engine_version=replacements.version(diagnosis.engine_version),
        rule_set_version=replacements.version(diagnosis.rule_set_version),
        evidence_digest=replacements.digest(diagnosis.evidence_digest),
        outcome=Outcome(diagnosis.outcome.state, WITHHELD, diagnosis.outcome.cut_short, _task(diagnosis.outcome.task)),
        trust_score=diagnosis.trust_score,
        confidence_score=diagnosis.confidence_score,
        confidence_lost=lost,
        coverage=replace(diagnosis.coverage, notes=[]),
        readiness=diagnosis.readiness,
        headline=replacements.failure_title(primary.type) if primary else "No problem was found",
        primary_diagnosis=None
        if primary is None
        else PrimaryDiagnosis(
            replacements.failure_type(primary.type),
            replacements.cited(primary.finding_id),
            primary.severity,
            replacements.failure_title(primary.type),
        ),
        sessions=[_session(session) for session in diagnosis.sessions],
        sessions_left_out=diagnosis.sessions_left_out,
        claims=[_claim(claim, number, names) for number, claim in enumerate(diagnosis.claims, 1)],
        failure_analysis=FailureAnalysis(findings, diagnosis.failure_analysis.left_out),
        causal_graph=_graph(diagnosis.causal_graph, titles),
        cost_analysis=_cost(diagnosis.cost_analysis),
        memory_analysis=diagnosis.memory_analysis,
        latency_analysis=_latency(diagnosis.latency_analysis),
        context_analysis=_context(diagnosis.context_analysis),
        timeline=None if diagnosis.timeline is None else _timeline(diagnosis.timeline),
        playbook=Playbook(changes=[], prompt=None),
        extensions=[_detector_run(run) for run in diagnosis.extensions],
        contracts=[_contract(result, number) for number, result in enumerate(diagnosis.contracts, 1)],
    )


def _contract(result: ContractResult, number: int) -> ContractResult:
    """Return how often a contract is violated; what it demands is a text of the user."""
    return ContractResult(
        id=f"contract_{number:03d}",
        definition={},
        violations=result.violations,
        not_evaluated=result.not_evaluated,
        problem=None if result.problem is None else WITHHELD,
        problem_event=None if result.problem_event is None else replacements.cited(result.problem_event),
    )


def _session_name(session: SessionDiagnosis) -> str | None:
    """Return the name that the events of a session have in anonymized views."""
    return None if session.number is None else f"session_{session.number}"


def _session(session: SessionDiagnosis) -> SessionDiagnosis:
    return SessionDiagnosis(
        session_key=_session_name(session),
        number=session.number,
        agent_runs=[],
        agent_runs_total=session.agent_runs_total,
        trust_score=session.trust_score,
        readiness=session.readiness,
        task=_task(session.task),
        cost_usd=session.cost_usd,
        cost_is_partial=session.cost_is_partial,
        cost_is_estimated=session.cost_is_estimated,
        findings=[replacements.cited(name) for name in session.findings],
    )


def _task(task: TaskOutcome) -> TaskOutcome:
    if task.verdict == "unknown":
        return TaskOutcome()
    return TaskOutcome(
        verdict=task.verdict, known_from=WITHHELD, evidence=[replacements.cited(name) for name in task.evidence]
    )


def _claim(claim: Claim, number: int, names: _Names) -> Claim:
    return Claim(
        id=f"claim_{number:03d}",
        session_key=names.get(claim.session_key),
        event_id=replacements.cited(claim.event_id),
        start=0,
        end=0,
        text=WITHHELD,
        kind=claim.kind,
        status=claim.status,
        reason=WITHHELD,
        evidence=[replacements.cited(name) for name in claim.evidence],
    )


def _finding(finding: Finding, names: _Names) -> Finding:
    kind = replacements.failure_type(finding.type)
    first = finding.first_bad_step
    return Finding(
        id=replacements.cited(finding.id),
        type=kind,
        cause=kind,
        severity=finding.severity,
        confidence=finding.confidence,
        title=replacements.failure_title(kind),
        explanation=replacements.failure_meaning(kind),
        evidence=[replacements.cited(name) for name in finding.evidence],
        occurrences=finding.occurrences,
        session_key=None if finding.session_key is None else names.get(finding.session_key, WITHHELD),
        # Without it, the finding of a session would look like one of the process.
        agent_run_id=None if finding.agent_run_id is None else WITHHELD,
        first_bad_step=None if first is None else replacements.cited(first),
        causal_chain=[
            CausalStep(replacements.cited(step.event_id), "", step.relation) for step in finding.causal_chain
        ],
        impact=finding.impact,
        recommendation=WITHHELD,
        verification=WITHHELD,
        extension=None if finding.extension is None else _origin(finding.extension),
    )


def _origin(origin: FindingOrigin) -> FindingOrigin:
    return FindingOrigin(package=WITHHELD, version=WITHHELD, trust_points=origin.trust_points)


def _detector_run(run: DetectorRun) -> DetectorRun:
    """Return the outcome of a detector without names and reasons, which can quote the run or identify its owner."""
    reason = None if run.reason is None else WITHHELD
    return replace(run, package=WITHHELD, version=WITHHELD, detector=WITHHELD, reason=reason)


def _graph(graph: CausalGraph, titles: dict[str, str]) -> CausalGraph:
    nodes = [
        GraphNode(
            replacements.cited(node.id),
            node.kind,
            titles.get(node.id, node.kind) if node.kind == "finding" else "event",
        )
        for node in graph.nodes
    ]
    edges = [
        GraphEdge(replacements.cited(edge.source), replacements.cited(edge.target), edge.relation)
        for edge in graph.edges
    ]
    return CausalGraph(nodes, edges)


def _cost(cost: CostAnalysis) -> CostAnalysis:
    """Return the cost analysis with models numbered, because a model name can identify the company that trained it."""
    return replace(
        cost,
        list_prices_date=None if cost.list_prices_date is None else replacements.day(cost.list_prices_date),
        per_model=[
            replace(usage, provider=None, model=f"model {number}") for number, usage in enumerate(cost.per_model, 1)
        ],
        per_tool=[replace(usage, tool=replacements.tool(usage.tool)) for usage in cost.per_tool],
        per_turn=[replace(usage, scope=Scope()) for usage in cost.per_turn],
    )


def _latency(latency: LatencyAnalysis) -> LatencyAnalysis:
    slowest = [
        replace(call, event_id=replacements.cited(call.event_id), name=replacements.tool(call.name))
        for call in latency.slowest
    ]
    return replace(latency, slowest=slowest)


def _context(context: ContextAnalysis) -> ContextAnalysis:
    largest = context.largest_result_event
    return replace(
        context,
        requests=[replace(size, event_id=replacements.cited(size.event_id)) for size in context.requests],
        largest_result_event=None if largest is None else replacements.cited(largest),
    )


def _timeline(timeline: TimelineSummary) -> TimelineSummary:
    return TimelineSummary(
        present=timeline.present,
        profiled=timeline.profiled,
        lines=timeline.lines,
        events=timeline.events,
        stalls_total=timeline.stalls_total,
        turns_total=timeline.turns_total,
        turns=[_turn(turn) for turn in timeline.turns],
    )


def _turn(turn: Turn) -> Turn:
    tree = SpanNode(name="turn", start_ms=turn.tree.start_ms, duration_ms=turn.tree.duration_ms, self_ms=0)
    return replace(
        turn,
        agent_run_id=None,
        pid=None,
        started_at=replacements.timestamp(turn.started_at),
        split=replace(turn.split, gaps=[]),
        tree=tree,
    )
