"""Trends of one agent over all hosts, from the index."""

from __future__ import annotations

from typing import NamedTuple

from critiqor.comparison.causes import CauseGroup, group_of
from critiqor.comparison.trends import JudgedRun, RunPoint, Trends, trends_of_judged
from critiqor.fleet.index.fleet_index import FleetIndex
from critiqor.fleet.index.query import RunQuery
from critiqor.fleet.index.rows import IndexedFinding, IndexedRun
from critiqor.fleet.index.standing import figure_of
from critiqor.fleet.views.run_names import run_names
from critiqor.model.formatting import format_cost, format_duration, format_number

MAX_RUNS = 1000
"""Number of runs that a trend is about, the newest ones, if nothing else is wanted."""


class FleetPoint(RunPoint, frozen=True, kw_only=True):
    """One run of the series, named `HOST/RUN`."""

    host: str


class AgentTrends(NamedTuple):
    """Trends, and the figures of each run as text, by its name."""

    trends: Trends
    texts: dict[str, dict[str, str]]


def agent_trends(index: FleetIndex, agent: str, last: int | None = None, tenant: str | None = None) -> AgentTrends:
    """Return the trends of an agent over its newest runs on all hosts."""
    runs = index.runs(RunQuery(agent_id=agent, tenant=tenant, limit=last or MAX_RUNS))[::-1]
    names, findings = run_names(runs), index.findings_of(runs)
    judged = [JudgedRun(_point(run, names[run.id]), _causes(findings.get(run.id, []))) for run in runs]
    return AgentTrends(trends_of_judged(agent, judged), {names[run.id]: figure_texts(run) for run in runs})


def figure_texts(run: IndexedRun) -> dict[str, str]:
    """Return trust, cost and time of a run of a trend as text, like `critiqor.comparison.figures.format_figures`."""
    return {
        "trust": format_number(run.trust),
        "cost_usd": format_cost(run.cost),
        "wall_ms": format_duration(run.wall_ms),
    }


def _point(run: IndexedRun, name: str) -> FleetPoint:
    wall, cost = figure_of(run, "wall_ms"), figure_of(run, "cost_usd")
    return FleetPoint(
        run_id=name,
        host=run.host,
        created_at=run.created_at,
        rule_set_version=run.rule_set,
        trust=run.trust,
        confidence=run.confidence,
        cost_usd=cost,
        cost_is_estimated=run.cost_is_estimated,
        wall_ms=None if wall is None else int(wall),
        primary_type=run.primary_type,
        sessions=run.sessions,
    )


def _causes(findings: list[IndexedFinding]) -> dict[str, CauseGroup]:
    members: dict[str, list[IndexedFinding]] = {}
    for finding in findings:
        members.setdefault(finding.cause, []).append(finding)
    return {cause: group_of(cause, each, []) for cause, each in members.items()}
