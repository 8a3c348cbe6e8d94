"""Figures of a run for comparisons, as numbers and as text: trust, findings, cost, tokens, calls, time."""

from __future__ import annotations

import msgspec

from critiqor.model.diagnosis import Diagnosis, was_profiled
from critiqor.model.formatting import (
    UNKNOWN,
    format_cost,
    format_duration,
    format_duration_change,
    format_money,
    format_number,
    format_trust,
)
from critiqor.model.verdict import Verdict, fresh_verdict

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


def session_note(diagnosis: Diagnosis) -> str | None:
    """Return whose trust is among the figures of a run; None if it has not several sessions, or is not proven."""
    if not diagnosis.has_several_sessions or diagnosis.readiness == "unknown":
        return None
    return trust_note(diagnosis.run_id, fresh_verdict(diagnosis))


def trust_note(run_id: str, verdict: Verdict) -> str:
    """Return whose trust is among the figures of a run with several sessions."""
    return f"{run_id}: trust {format_trust(verdict)}"


def estimate_note(diagnosis: Diagnosis) -> str | None:
    """Return that the cost among the figures of a run is estimated, and from which prices; None if it is not."""
    cost = diagnosis.cost_analysis
    if not cost.cost_is_estimated:
        return None
    return list_price_note(diagnosis.run_id, cost.list_prices_date)


def list_price_note(run_id: str, date: str | None) -> str:
    """Return that the cost of a run is estimated, and from which prices."""
    return f"{run_id}: cost is estimated from list prices of {date}"


def diagnose_command(run_id: str, placeholder: str | None = None) -> str:
    """Return the command that diagnoses a run again; a run of a store is named `HOST/RUN`, as no run of a folder is."""
    return "critiqor fleet diagnose" if "/" in run_id else f"critiqor diagnose {placeholder or run_id}"


def show_command(run_id: str) -> str:
    """Return the command that shows a run, or that fetches it from its store."""
    return f"critiqor {'pull' if '/' in run_id else 'show'} {run_id}"


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
