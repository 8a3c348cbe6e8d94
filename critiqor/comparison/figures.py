"""What runs are laid side by side by: their numbers, and their findings grouped by cause."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from critiqor.model.diagnosis import SEVERITIES, CostAnalysis, Diagnosis, Finding, Outcome, Severity, Usage
from critiqor.model.formatting import counted

NAMED_AT_MOST = 5
"""How many names a sentence holds before it counts the rest."""


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of one run. Null is unknown, never nothing."""

    trust: int | None
    confidence: int
    findings: int | None
    """Null where the agent was not observed: what was not seen cannot be counted."""
    cost_usd: float | None
    """Null as well where a part of it is unknown: half a cost is not comparable with a whole one."""
    tokens: int | None
    """Everything read and written, cached or not; null where a model call told no usage."""
    model_calls: int
    tool_calls: int
    wall_ms: int | None
    """Null as well for a run that was deeply profiled: it takes longer than it does otherwise."""


class CauseGroup(msgspec.Struct, frozen=True, kw_only=True):
    """The findings of one run that share a cause."""

    cause: str
    type: str
    severity: Severity
    """The worst of them."""
    title: str
    """Of the worst of them."""
    findings: int
    occurrences: int


def figures_of(diagnosis: Diagnosis) -> Figures:
    """The numbers of a run."""
    cost = diagnosis.cost_analysis
    return Figures(
        trust=diagnosis.trust_score,
        confidence=diagnosis.confidence_score,
        findings=None if diagnosis.trust_score is None else len(diagnosis.failure_analysis.findings),
        cost_usd=None if untold_cost(cost) else cost.cost_usd,
        tokens=None if untold_usage(cost) else tokens_of(cost),
        model_calls=cost.model_calls,
        tool_calls=cost.tool_calls,
        wall_ms=None if was_profiled(diagnosis) else diagnosis.latency_analysis.wall_ms,
    )


def came_to_its_end(outcome: Outcome) -> bool:
    """Whether a run was seen to its end: what would have come of one that was cut off is unknown."""
    if outcome.state in ("completed", "failed"):
        return outcome.cut_short is not True
    # Whoever stops a gateway, or seals it while it waits, interrupts nobody: its agents had come to their ends.
    return outcome.state in ("interrupted", "still_running") and outcome.cut_short is False


def was_profiled(diagnosis: Diagnosis) -> bool:
    """Whether its times are not those of an ordinary run."""
    return diagnosis.timeline is not None and diagnosis.timeline.profiled


def tokens_of(usage: Usage) -> int:
    """All tokens that were told of; the least that can have been, where a model call told no usage."""
    return usage.input_tokens + usage.output_tokens + usage.cache_read_tokens + usage.cache_write_tokens


def untold_usage(cost: CostAnalysis) -> str | None:
    """Why the tokens of a run are not wholly known; None where they are."""
    missing = cost.model_calls_without_usage
    return f"{counted(missing, 'model call')} told no usage" if missing else None


def untold_cost(cost: CostAnalysis) -> str | None:
    """Why the cost of a run is not wholly known; None where it is."""
    if reason := untold_usage(cost):
        return reason
    if cost.cost_usd is None:
        return "no price is known"
    unpriced = [model.model or "a model" for model in cost.per_model if model.cost_usd is None and tokens_of(model)]
    return f"no price is known for {named(unpriced)}" if unpriced else None


def causes_of(diagnosis: Diagnosis) -> dict[str, CauseGroup]:
    """The findings of a run by cause. Their order does not matter."""
    members: dict[str, list[Finding]] = {}
    for finding in diagnosis.failure_analysis.findings:
        members.setdefault(finding.cause, []).append(finding)
    return {cause: _group(cause, findings) for cause, findings in members.items()}


def rank(severity: Severity) -> int:
    """0 for the worst."""
    return SEVERITIES.index(severity)


def named(names: Iterable[str]) -> str:
    """The first few names, and how many more there are."""
    every = list(names)
    rest = len(every) - NAMED_AT_MOST
    return ", ".join(every[:NAMED_AT_MOST]) + (f" and {rest} more" if rest > 0 else "")


def _group(cause: str, findings: list[Finding]) -> CauseGroup:
    worst = min(findings, key=lambda finding: (rank(finding.severity), finding.title, finding.type))
    return CauseGroup(
        cause=cause,
        type=worst.type,
        severity=worst.severity,
        title=worst.title,
        findings=len(findings),
        occurrences=sum(finding.occurrences for finding in findings),
    )
