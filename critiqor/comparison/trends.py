"""Is an agent getting better? Its runs in order of time, what they have in common, and where trust is going.

Only runs that were judged by the same rules can be counted together: those of the latest diagnosed run. The others are
listed and named.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Literal, NamedTuple

import msgspec

from critiqor.comparison.figures import CauseGroup, causes_of, figures_of, rank
from critiqor.model.diagnosis import Diagnosis, Severity
from critiqor.model.formatting import counted
from critiqor.model.measures import list_names
from critiqor.model.report import RunSummary

Direction = Literal["up", "down", "level", "no direction"]
FEWEST_FOR_A_DIRECTION = 4


class RunPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the series."""

    run_id: str
    created_at: str | None
    rule_set_version: str
    trust: int | None
    confidence: int
    cost_usd: float | None
    wall_ms: int | None
    primary_type: str | None
    """The type of the problem to look at first; null where there is none."""


class UndiagnosedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run of which nothing is known, and what to type to change that."""

    run_id: str
    reason: str
    fix: str | None


class CauseTrend(msgspec.Struct, frozen=True, kw_only=True):
    """How often one cause occurred, since when and until when."""

    cause: str
    type: str
    title: str
    """As it was the last time."""
    severity: Severity
    """The worst that it ever had."""
    runs: int
    """In how many runs it occurred."""
    of: int
    """How many runs were counted."""
    first_run: str
    first_at: str | None
    last_run: str
    last_at: str | None
    in_latest: bool
    """Whether the latest run still has it; where that was not observed, the latest one that was."""


class Trends(msgspec.Struct, frozen=True, kw_only=True):
    """What the runs of one agent tell together."""

    agent_id: str
    rule_set_version: str | None
    """The rules by which the counted runs were judged; null where no run is diagnosed."""
    direction: Direction
    """Of trust."""
    first_half_trust: float | None
    """Median; the run in the middle of an odd number belongs to neither half."""
    second_half_trust: float | None
    summary: str
    runs: list[RunPoint]
    """In order of time."""
    causes: list[CauseTrend]
    """The most frequent first."""
    undiagnosed: list[UndiagnosedRun]
    unreadable: list[str]
    """Runs whose record cannot be read, so that nobody knows whose they are."""
    notes: list[str]


class _Judged(NamedTuple):
    case: RunSummary
    diagnosis: Diagnosis


def trends_of(agent_id: str, cases: Sequence[RunSummary], last: int | None = None) -> Trends:
    """What the runs of one agent tell together, or its newest `last` ones.

    `cases` are the runs of a folder in order of time, whoever's they are.
    """
    own = [case for case in cases if case.metadata is not None and case.metadata.agent_id == agent_id]
    own = own[-last:] if last else own
    every = [_Judged(case, case.diagnosis) for case in own if case.diagnosis is not None]
    rules = every[-1].diagnosis.rule_set_version if every else None
    judged = [run for run in every if run.diagnosis.rule_set_version == rules]
    trusts = [run.diagnosis.trust_score for run in judged if run.diagnosis.trust_score is not None]
    direction, first, second = direction_of(trusts)
    return Trends(
        agent_id=agent_id,
        rule_set_version=rules,
        direction=direction,
        first_half_trust=first,
        second_half_trust=second,
        summary=_summary(direction, first, second, len(trusts)),
        runs=[_point(run) for run in every],
        causes=_cause_trends(judged),
        undiagnosed=[
            UndiagnosedRun(run_id=case.run_id, reason=case.undiagnosed or "not diagnosed", fix=case.fix)
            for case in own
            if case.diagnosis is None
        ],
        unreadable=[case.run_id for case in cases if case.metadata is None],
        notes=_notes(every, rules),
    )


def direction_of(trusts: Sequence[int]) -> tuple[Direction, float | None, float | None]:
    """Where a series goes, with the medians of its first and its second half."""
    half = len(trusts) // 2
    if len(trusts) < FEWEST_FOR_A_DIRECTION:
        return "no direction", None, None
    first, second = float(median(trusts[:half])), float(median(trusts[-half:]))
    if first == second:
        return "level", first, second
    return ("up" if second > first else "down"), first, second


def _summary(direction: Direction, first: float | None, second: float | None, observed: int) -> str:
    if first is None or second is None:
        return f"no direction: {counted(observed, 'run')} with a trust score, {FEWEST_FOR_A_DIRECTION} are needed"
    return f"trust {direction}: median {first:g} in the first half, {second:g} in the second, over {observed} runs"


def _point(run: _Judged) -> RunPoint:
    figures, primary = figures_of(run.diagnosis), run.diagnosis.primary_diagnosis
    return RunPoint(
        run_id=run.case.run_id,
        created_at=run.case.created_at,
        rule_set_version=run.diagnosis.rule_set_version,
        trust=figures.trust,
        confidence=figures.confidence,
        cost_usd=figures.cost_usd,
        wall_ms=figures.wall_ms,
        primary_type=primary.type if primary else None,
    )


def _cause_trends(judged: Sequence[_Judged]) -> list[CauseTrend]:
    sightings: dict[str, list[tuple[RunSummary, CauseGroup]]] = {}
    for run in judged:
        for cause, group in causes_of(run.diagnosis).items():
            sightings.setdefault(cause, []).append((run.case, group))
    trends = [_cause_trend(seen, judged) for seen in sightings.values()]
    return sorted(trends, key=lambda trend: (-trend.runs, rank(trend.severity), trend.cause))


def _cause_trend(seen: list[tuple[RunSummary, CauseGroup]], judged: Sequence[_Judged]) -> CauseTrend:
    (first, _), (last, group) = seen[0], seen[-1]
    observed = [run.case.run_id for run in judged if run.diagnosis.trust_score is not None]
    # What a run that was not observed does not show is not gone.
    latest = {judged[-1].case.run_id, *observed[-1:]}
    return CauseTrend(
        cause=group.cause,
        type=group.type,
        title=group.title,
        severity=min((group.severity for _, group in seen), key=rank),
        runs=len(seen),
        of=len(judged),
        first_run=first.run_id,
        first_at=first.created_at,
        last_run=last.run_id,
        last_at=last.created_at,
        in_latest=any(case.run_id in latest for case, _ in seen),
    )


def _notes(every: Sequence[_Judged], rules: str | None) -> list[str]:
    notes = []
    if others := [run.case.run_id for run in every if run.diagnosis.rule_set_version != rules]:
        told = f"{counted(len(others), 'run')} judged by other rules and not counted: {list_names(others)}"
        notes.append(f"{told}; critiqor diagnose RUN judges a run by the rules of today")
    if blind := [run.case.run_id for run in every if run.diagnosis.trust_score is None]:
        notes.append(f"{counted(len(blind), 'run')} not observed, without a trust score: {list_names(blind)}")
    return notes
