"""What runs are compared by: their numbers, and their findings grouped by cause."""

from __future__ import annotations

import msgspec

from critiqor.model.diagnosis import SEVERITIES, Diagnosis, Finding, Outcome, Severity
from critiqor.model.measures import total_tokens, unknown_cost, unknown_usage, wall_time_ms


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of one run. Null is unknown, never zero."""

    trust: int | None
    confidence: int
    findings: int | None
    """Null where the agent was not observed."""
    cost_usd: float | None
    """Null as well where a part of it is unknown: a partial cost is not comparable with a whole one."""
    tokens: int | None
    """Input and output, cached or not; null where a model call reported no usage."""
    model_calls: int
    tool_calls: int
    wall_ms: int | None
    """Null as well for a run with deep profiling, which slows it down."""


class CauseGroup(msgspec.Struct, frozen=True, kw_only=True):
    """The findings of one run that share a cause."""

    cause: str
    type: str
    severity: Severity
    """The highest one."""
    title: str
    """From the most severe one."""
    findings: int
    occurrences: int


def figures_of(diagnosis: Diagnosis) -> Figures:
    """Return the numbers of a run."""
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


def has_finished(outcome: Outcome) -> bool:
    """Return whether a run was observed to its end: the rest of one that was cut off is unknown."""
    if outcome.state in ("completed", "failed"):
        return outcome.cut_short is not True
    # Stopping a gateway, or sealing it while it is idle, interrupts nothing: its agents had finished.
    return outcome.state in ("interrupted", "still_running") and outcome.cut_short is False


def was_profiled(diagnosis: Diagnosis) -> bool:
    """Return whether deep profiling slowed the run down."""
    return diagnosis.timeline is not None and diagnosis.timeline.profiled


def causes_of(diagnosis: Diagnosis) -> dict[str, CauseGroup]:
    """Group the findings of a run by cause. Their order does not matter."""
    members: dict[str, list[Finding]] = {}
    for finding in diagnosis.failure_analysis.findings:
        members.setdefault(finding.cause, []).append(finding)
    return {cause: _group(cause, findings) for cause, findings in members.items()}


def rank(severity: Severity) -> int:
    """Return the position of a severity: 0 for the most severe."""
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
