"""Figures of a run for comparisons, as numbers and as text: trust, findings, cost, tokens, calls, time."""

from __future__ import annotations

import msgspec

from critiqor.model.diagnosis import Diagnosis
from critiqor.model.formatting import (
    UNKNOWN,
    format_cost,
    format_duration,
    format_duration_change,
    format_money,
    format_number,
)
from critiqor.model.verdict import Verdict

FIGURE_LABELS = {
    "trust": "trust",
    "confidence": "confidence",
    "findings": "findings",
    "cost_usd": "cost",
    "tokens": "tokens",
    "model_calls": "model calls",
    "tool_calls": "tool calls",
    "wall_ms": "time",
}
"""Labels of the figures by which runs are compared."""


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
        findings=None if diagnosis.trust_score is None else len(diagnosis.failure_analysis.own_findings),
        cost_usd=None if cost.unknown_cost else cost.cost_usd,
        tokens=None if cost.unknown_usage else cost.total_tokens,
        model_calls=cost.model_calls,
        tool_calls=cost.tool_calls,
        wall_ms=None if was_profiled(diagnosis) else diagnosis.wall_time_ms,
    )


def format_figure(name: str, value: float | None) -> str:
    """Return a figure of a run with its unit; `name` is a key of `FIGURE_LABELS`."""
    if name == "cost_usd":
        return format_money(value)
    return format_duration(value) if name == "wall_ms" else format_number(value)


def format_difference(name: str, value: float | None) -> str:
    """Return by how much a figure changed, with its sign."""
    if not value:
        return UNKNOWN if value is None else "same"
    if name == "wall_ms":
        return format_duration_change(value)
    return ("+" if value > 0 else "-") + format_figure(name, abs(value))


def format_figures(diagnosis: Diagnosis, verdict: Verdict) -> dict[str, str]:
    """Return trust, cost and time of a run as text, by figure name.

    Comparisons use only complete costs and undisturbed times; these texts always show what is known.
    """
    return {
        "trust": format_number(verdict.trust),
        "cost_usd": format_cost(diagnosis.cost_analysis),
        "wall_ms": format_duration(diagnosis.wall_time_ms),
    }


def was_profiled(diagnosis: Diagnosis) -> bool:
    """Return whether a diagnosis is of a run that was slowed down by deep profiling."""
    return diagnosis.timeline is not None and diagnosis.timeline.profiled
