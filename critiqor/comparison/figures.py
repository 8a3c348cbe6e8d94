"""Figures of a run for comparisons: trust, findings, cost, tokens, calls, time."""

from __future__ import annotations

import msgspec

from critiqor.model.diagnosis import Diagnosis, was_profiled
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


def figures_of(diagnosis: Diagnosis) -> Figures:
    """Return the figures of a run from its diagnosis."""
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
