"""Figures of a run for comparisons, and its findings grouped by cause."""

from __future__ import annotations

import msgspec

from critiqor.model.diagnosis import SEVERITIES, Diagnosis, Finding, Severity
from critiqor.model.measures import total_tokens, unknown_cost, unknown_usage, wall_time_ms


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one run. Unknown figures are null, not zero."""

    trust: int | None
    confidence: int
    findings: int | None
    """Number of findings; null if the agent was not observed."""
    cost_usd: float | None
    """Null also if a part of the cost is unknown: a partial cost cannot be compared with a complete one."""
    tokens: int | None
    """Input and output tokens, cached or not; null if a model call reported no usage."""
    model_calls: int
    tool_calls: int
    wall_ms: int | None
    """Null also for a run with deep profiling, which slows the run down."""


class CauseGroup(msgspec.Struct, frozen=True, kw_only=True):
    """The findings of one run that share a cause."""

    cause: str
    type: str
    severity: Severity
    """The highest severity of these findings."""
    title: str
    """Title of the most severe finding."""
    findings: int
    """Number of findings."""
    occurrences: int
    """Number of occurrences in all of them."""


def figures_of(diagnosis: Diagnosis) -> Figures:
    """Return the figures of a run."""
    cost = diagnosis.cost_analysis
    return Figures(
        trust=diagnosis.trust_score,
        confidence=diagnosis.confidence_score,
        findings=None if diagnosis.trust_score is None else len(diagnosis.failure_analysis.findings),
        cost_usd=None if unknown_cost(cost) else cost.cost_usd,
        tokens=None if unknown_usage(cost) else total_tokens(cost),
        model_calls=cost.model_calls,
        tool_calls=cost.tool_calls,
        wall_ms=None if was_profiled(diagnosis) else wall_time_ms(diagnosis),
    )


def was_profiled(diagnosis: Diagnosis) -> bool:
    """Return whether deep profiling slowed the run down."""
    return diagnosis.timeline is not None and diagnosis.timeline.profiled


def causes_of(diagnosis: Diagnosis) -> dict[str, CauseGroup]:
    """Group the findings of a run by cause. The order of the findings does not matter."""
    members: dict[str, list[Finding]] = {}
    for finding in diagnosis.failure_analysis.findings:
        members.setdefault(finding.cause, []).append(finding)
    return {cause: _group(cause, findings) for cause, findings in members.items()}


def rank(severity: Severity) -> int:
    """Return the position of a severity: 0 for the highest one."""
    return SEVERITIES.index(severity)


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
