"""What is left of a run for somebody who may know its structure and its figures, and nothing else.

Nothing is taken out: everything is made anew from what may stay, so that a field that is added later stays at home
until somebody lets it out here.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from critiqor.model import (
    CausalGraph,
    CausalStep,
    Coverage,
    Diagnosis,
    Event,
    FailureAnalysis,
    Finding,
    GraphNode,
    Outcome,
    Playbook,
    PrimaryDiagnosis,
    Scope,
)
from critiqor.model.evidence import RecorderFacts
from critiqor.model.timeline import SpanNode, TimelineSummary, Turn

AGENT = "an agent"
WITHHELD = "withheld"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]{0,63}")
"""What can be the name of a tool, a model or a kind of event, and is no sentence and no path."""
_FIGURES = (
    "requestPayloadBytes",
    "timeToFirstByteMs",
    "contextTokenBudget",
    "exit_code",
    "exitCode",
    "attempt",
    "turn",
)
_USAGE = ("input", "output", "cacheRead", "cacheWrite", "total", "totalTokens")


def anonymous_head(head: dict[str, Any]) -> dict[str, Any]:
    """A record that does not say whose it is."""
    metadata = {"agent_id": AGENT, "tenant_id": WITHHELD, "visibility": head["metadata"]["visibility"]}
    names = {name: _name(str(head["metadata"][name])) for name in ("framework", "benchmark_id", "difficulty_tier")}
    kept = ("run_id", "status", "timestamps", "seal", "cut", "trust_score", "confidence_score")
    return {
        **{name: head[name] for name in kept},
        "metadata": {**metadata, **names},
        "owner": None,
        "headline": None,
        "lifecycle": head["lifecycle"],
    }


def anonymous_event(event: Event) -> Event:
    """That something happened, when, how long it took and whether it failed."""
    figures = {name: value for name in _FIGURES if _is_figure(value := event.payload.get(name))}
    usage = event.payload.get("usage")
    if isinstance(usage, dict):
        told = {name: value for name in _USAGE if _is_figure(value := usage.get(name))}
        cost = usage.get("cost")
        if isinstance(cost, dict) and _is_figure(cost.get("total")):
            told["cost"] = {"total": cost["total"]}
        figures["usage"] = told
    return Event(
        event_id=event.event_id,
        event_type=_name(event.event_type),
        timestamp=event.timestamp,
        source_layer=_name(event.source_layer),
        tool_name=None if event.tool_name is None else _name(event.tool_name),
        status=_name(event.status),
        duration_ms=event.duration_ms,
        payload=figures,
    )


def anonymous_diagnosis(diagnosis: Diagnosis) -> Diagnosis:
    """Verdict, kinds of findings, chains and figures, without a word that was quoted."""
    findings = [_finding(finding) for finding in diagnosis.failure_analysis.findings]
    titles = {finding.id: finding.title for finding in findings}
    primary = diagnosis.primary_diagnosis
    nodes = [
        GraphNode(node.id, node.kind, titles.get(node.id, node.kind) if node.kind == "finding" else "event")
        for node in diagnosis.causal_graph.nodes
    ]
    cost = msgspec.structs.replace(
        diagnosis.cost_analysis,
        per_model=[
            msgspec.structs.replace(model, provider=_optional_name(model.provider), model=_optional_name(model.model))
            for model in diagnosis.cost_analysis.per_model
        ],
        per_tool=[msgspec.structs.replace(tool, tool=_name(tool.tool)) for tool in diagnosis.cost_analysis.per_tool],
        per_turn=[msgspec.structs.replace(turn, scope=Scope()) for turn in diagnosis.cost_analysis.per_turn],
    )
    slowest = [msgspec.structs.replace(call, name=_name(call.name)) for call in diagnosis.latency_analysis.slowest]
    return Diagnosis(
        run_id=diagnosis.run_id,
        generated_at=diagnosis.generated_at,
        engine_version=diagnosis.engine_version,
        rule_set_version=diagnosis.rule_set_version,
        evidence_digest=diagnosis.evidence_digest,
        outcome=Outcome(diagnosis.outcome.state, WITHHELD),
        trust_score=diagnosis.trust_score,
        confidence_score=diagnosis.confidence_score,
        confidence_lost=diagnosis.confidence_lost,
        readiness=diagnosis.readiness,
        headline=_words(primary.type) if primary else "No problem was found",
        primary_diagnosis=PrimaryDiagnosis(primary.type, primary.finding_id, primary.severity, _words(primary.type))
        if primary
        else None,
        failure_analysis=FailureAnalysis(findings, diagnosis.failure_analysis.left_out),
        causal_graph=CausalGraph(nodes, diagnosis.causal_graph.edges),
        cost_analysis=cost,
        memory_analysis=diagnosis.memory_analysis,
        latency_analysis=msgspec.structs.replace(diagnosis.latency_analysis, slowest=slowest),
        context_analysis=diagnosis.context_analysis,
        timeline=None if diagnosis.timeline is None else _timeline(diagnosis.timeline),
        playbook=Playbook(changes=[], prompt=None),
    )


def anonymous_coverage(coverage: Coverage) -> Coverage:
    """What was seen and not seen, in figures."""
    figures: dict[str, Any] = {
        name: value for name in coverage.__struct_fields__ if isinstance(value := getattr(coverage, name), bool | int)
    }
    recorders = [RecorderFacts(openclaw_version=recorder.openclaw_version) for recorder in coverage.recorders]
    return Coverage(
        **figures,
        recorders=recorders,
        damage_by_kind=coverage.damage_by_kind,
        secrets_redacted=coverage.secrets_redacted,
        sources={_name(name): live for name, live in coverage.sources.items()},
    )


def _finding(finding: Finding) -> Finding:
    return Finding(
        id=finding.id,
        type=finding.type,
        cause=finding.type,
        severity=finding.severity,
        confidence=finding.confidence,
        title=_words(finding.type),
        explanation="",
        evidence=finding.evidence,
        occurrences=finding.occurrences,
        first_bad_step=finding.first_bad_step,
        causal_chain=[CausalStep(step.event_id, "", step.relation) for step in finding.causal_chain],
        impact=finding.impact,
        recommendation="",
        verification="",
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
    split = msgspec.structs.replace(turn.split, gaps=[])
    tree = SpanNode(name="turn", start_ms=turn.tree.start_ms, duration_ms=turn.tree.duration_ms, self_ms=0)
    return msgspec.structs.replace(turn, agent_run_id=None, pid=None, split=split, tree=tree)


def anonymous_name(name: str) -> str:
    """A name, where it can be no more than one."""
    return _name(name)


def _name(name: str) -> str:
    return name if _NAME.fullmatch(name) else WITHHELD


def _optional_name(name: str | None) -> str | None:
    return None if name is None else _name(name)


def _words(kind: str) -> str:
    return kind.replace("_", " ").capitalize()


def _is_figure(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
