"""Trends of the runs of one agent: its trust over time, and which causes recur.

Only runs with the same rule set as the latest diagnosed run are counted. The others are only listed.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Literal, NamedTuple

import msgspec

from critiqor.comparison.causes import CauseGroup, causes_of
from critiqor.comparison.commands import diagnose_command
from critiqor.comparison.figures import figures_of
from critiqor.model.diagnosis import Diagnosis, Severity, severity_rank
from critiqor.model.formatting import counted, format_sessions, list_names
from critiqor.model.report import RunSummary

Direction = Literal["up", "down", "level", "no direction"]
MIN_FOR_DIRECTION = 4
"""Minimum number of trust scores for a direction."""


class RunPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the series."""

    run_id: str
    created_at: str | None
    rule_set_version: str
    trust: int | None
    confidence: int
    cost_usd: float | None
    cost_is_estimated: bool = False
    """Whether a part of the cost was computed from list prices."""
    wall_ms: int | None
    primary_type: str | None
    """Type of the primary problem; null if the run has no findings."""
    sessions: str | None = None
    """The worst session, whose trust it is, and how the others are judged; null if there are not several."""


class UndiagnosedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run without a diagnosis."""

    run_id: str
    reason: str
    """Why there is no diagnosis."""
    fix: str | None
    """The command that creates the diagnosis; null if unknown."""


class CauseTrend(msgspec.Struct, frozen=True, kw_only=True):
    """In how many runs one cause occurred, and in which runs first and last."""

    cause: str
    type: str
    title: str
    """Title in the last run with this cause."""
    severity: Severity
    """The highest severity in any run."""
    runs: int
    """Number of runs with this cause."""
    of: int
    """Number of all counted runs."""
    first_run: str
    first_at: str | None
    last_run: str
    last_at: str | None
    in_latest: bool
    """Whether the latest run or the latest observed run has this cause."""


class Trends(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of one agent over time."""

    agent_id: str
    rule_set_version: str | None
    """Rule set of the counted runs; null if no run is diagnosed."""
    direction: Direction
    """Direction of the trust score."""
    first_half_trust: float | None
    """Median trust score; with an odd number of runs, the middle run belongs to neither half."""
    second_half_trust: float | None
    """Median trust score."""
    summary: str
    runs: list[RunPoint]
    """All diagnosed runs, oldest first."""
    causes: list[CauseTrend]
    """Most frequent first."""
    undiagnosed: list[UndiagnosedRun]
    unreadable: list[str]
    """Runs whose record cannot be read, so that their agent is unknown."""
    notes: list[str]


class JudgedRun(NamedTuple):
    """A diagnosed run for trends."""

    point: RunPoint
    causes: dict[str, CauseGroup]


def trends_of(agent_id: str, cases: Sequence[RunSummary], last: int | None = None) -> Trends:
    """Return the trends of the runs of one agent, or of its newest `last` runs.

    `cases` are all runs of a folder, oldest first.
    """
    own = [case for case in cases if case.metadata is not None and case.metadata.agent_id == agent_id]
    own = own[-last:] if last else own
    return trends_of_judged(
        agent_id,
        [
            JudgedRun(_point(case, case.diagnosis), causes_of(case.diagnosis))
            for case in own
            if case.diagnosis is not None
        ],
        undiagnosed=[
            UndiagnosedRun(run_id=case.run_id, reason=case.undiagnosed or "not diagnosed", fix=case.fix)
            for case in own
            if case.diagnosis is None
        ],
        unreadable=[case.run_id for case in cases if case.metadata is None],
    )


def trends_of_judged(
    agent_id: str,
    every: Sequence[JudgedRun],
    undiagnosed: Sequence[UndiagnosedRun] = (),
    unreadable: Sequence[str] = (),
) -> Trends:
    """Return the trends of the diagnosed runs of one agent, which come oldest first."""
    rules = every[-1].point.rule_set_version if every else None
    judged = [run for run in every if run.point.rule_set_version == rules]
    trusts = [run.point.trust for run in judged if run.point.trust is not None]
    direction, first, second = direction_of(trusts)
    return Trends(
        agent_id=agent_id,
        rule_set_version=rules,
        direction=direction,
        first_half_trust=first,
        second_half_trust=second,
        summary=_summary(direction, first, second, len(trusts)),
        runs=[run.point for run in every],
        causes=_cause_trends(judged),
        undiagnosed=list(undiagnosed),
        unreadable=list(unreadable),
        notes=_notes(every, rules),
    )


def direction_of(trusts: Sequence[int]) -> tuple[Direction, float | None, float | None]:
    """Return the direction of trust scores, and the medians of their first and second half."""
    half = len(trusts) // 2
    if len(trusts) < MIN_FOR_DIRECTION:
        return "no direction", None, None
    first, second = float(median(trusts[:half])), float(median(trusts[-half:]))
    if first == second:
        return "level", first, second
    return ("up" if second > first else "down"), first, second


def _summary(direction: Direction, first: float | None, second: float | None, observed: int) -> str:
    if first is None or second is None:
        return f"no trend: only {counted(observed, 'run')} with a trust score, at least {MIN_FOR_DIRECTION} needed"
    return f"trust {direction}: median {first:g} in the first half, {second:g} in the second, over {observed} runs"


def _point(case: RunSummary, diagnosis: Diagnosis) -> RunPoint:
    figures, primary = figures_of(diagnosis), diagnosis.primary_diagnosis
    return RunPoint(
        run_id=case.run_id,
        created_at=case.created_at,
        rule_set_version=diagnosis.rule_set_version,
        trust=figures.trust,
        confidence=figures.confidence,
        cost_usd=figures.cost_usd,
        cost_is_estimated=diagnosis.cost_analysis.cost_is_estimated,
        wall_ms=figures.wall_ms,
        primary_type=primary.type if primary else None,
        sessions=format_sessions(diagnosis),
    )


def _cause_trends(judged: Sequence[JudgedRun]) -> list[CauseTrend]:
    sightings: dict[str, list[tuple[RunPoint, CauseGroup]]] = {}
    for run in judged:
        for cause, group in run.causes.items():
            sightings.setdefault(cause, []).append((run.point, group))
    trends = [_cause_trend(seen, judged) for seen in sightings.values()]
    return sorted(trends, key=lambda trend: (-trend.runs, severity_rank(trend.severity), trend.cause))


def _cause_trend(seen: list[tuple[RunPoint, CauseGroup]], judged: Sequence[JudgedRun]) -> CauseTrend:
    (first, _), (last, group) = seen[0], seen[-1]
    observed = [run.point.run_id for run in judged if run.point.trust is not None]
    # If the latest run was not observed, its findings do not show that a cause is gone.
    latest = {judged[-1].point.run_id, *observed[-1:]}
    return CauseTrend(
        cause=group.cause,
        type=group.type,
        title=group.title,
        severity=min((group.severity for _, group in seen), key=severity_rank),
        runs=len(seen),
        of=len(judged),
        first_run=first.run_id,
        first_at=first.created_at,
        last_run=last.run_id,
        last_at=last.created_at,
        in_latest=any(point.run_id in latest for point, _ in seen),
    )


def _notes(every: Sequence[JudgedRun], rules: str | None) -> list[str]:
    notes = []
    if others := [run.point.run_id for run in every if run.point.rule_set_version != rules]:
        runs = counted(len(others), "run")
        not_counted = f"{runs} diagnosed with another rule set and not counted: {list_names(others)}"
        notes.append(f"{not_counted}; run {diagnose_command(others[0], 'RUN')} to use the current rules")
    if blind := [run.point.run_id for run in every if run.point.trust is None]:
        notes.append(
            f"{counted(len(blind), 'run')} without a trust score because no agent was observed: {list_names(blind)}"
        )
    return notes
