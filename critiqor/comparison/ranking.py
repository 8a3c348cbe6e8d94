"""Ranking of a run among the runs of the same tenant, benchmark and difficulty.

Ties count half. Unknown values are left out and counted. Only runs diagnosed with the same rule set are compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from critiqor.comparison.commands import diagnose_command
from critiqor.comparison.figure_notes import estimate_note, session_note
from critiqor.comparison.figures import Figures, figures_of
from critiqor.model.formatting import counted, list_names
from critiqor.model.record import Metadata
from critiqor.model.report import RunSummary

MIN_OTHERS = 5
"""Minimum number of other runs; a rank among fewer runs is not meaningful."""
MORE_IS_BETTER = {"trust": True, "cost_usd": False, "tokens": False, "wall_ms": False, "findings": False}
"""Figures by which runs are ranked, and whether more is better."""


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """The rank of a run by one figure."""

    figure: str
    value: int | float | None
    """Value of the figure; null if unknown for this run."""
    better_than_percent: float | None
    """Percentage of the other runs that are worse, with ties counted half; null if unknown or too few runs."""
    others: int
    """Number of other runs with a known value."""
    unknown: int
    """Number of runs that were left out because their value is unknown."""
    statement: str
    """The rank in words."""


class Standing(NamedTuple):
    """How the other runs compare with a run by one figure."""

    worse: int
    ties: int
    known: int
    """Number of other runs with a known value."""

    @property
    def percent_worse(self) -> float:
        """The percentage of other runs in the ranking that are worse; ties count half. At least one must be known."""
        return round(100 * (self.worse + self.ties / 2) / self.known, 1)


class Ranking(msgspec.Struct, frozen=True, kw_only=True):
    """The rank of a run among comparable runs."""

    run_id: str
    benchmark_id: str
    difficulty_tier: str
    rule_set_version: str
    others: int
    """Number of comparable runs."""
    placements: list[Placement]
    judged_by_other_rules: list[str]
    """Runs of the same benchmark and difficulty that must be diagnosed again to be comparable."""
    undiagnosed: list[str]
    """Runs of the same benchmark and difficulty without a diagnosis."""
    unreadable: list[str]
    """Runs whose record cannot be read, so that their benchmark is unknown."""
    notes: list[str]


def rank_run(run_id: str, cases: Sequence[RunSummary]) -> Ranking:
    """Rank a diagnosed run among the runs of its folder. Raises `ValueError` if the run has no diagnosis."""
    own = next((case for case in cases if case.run_id == run_id), None)
    if own is None or own.metadata is None or own.diagnosis is None:
        raise ValueError(f"{run_id} is not diagnosed")
    rules = own.diagnosis.rule_set_version
    alike = [case for case in cases if case.run_id != run_id and _kind(case.metadata) == _kind(own.metadata)]
    diagnosed = [(case.run_id, case.diagnosis) for case in alike if case.diagnosis is not None]
    comparable = [figures_of(diagnosis) for _, diagnosis in diagnosed if diagnosis.rule_set_version == rules]
    others = [name for name, diagnosis in diagnosed if diagnosis.rule_set_version != rules]
    undiagnosed = [case.run_id for case in alike if case.diagnosis is None]
    unreadable = [case.run_id for case in cases if case.metadata is None]
    return Ranking(
        run_id=run_id,
        benchmark_id=own.metadata.benchmark_id,
        difficulty_tier=own.metadata.difficulty_tier,
        rule_set_version=rules,
        others=len(comparable),
        placements=[_placement(figure, figures_of(own.diagnosis), comparable) for figure in MORE_IS_BETTER],
        judged_by_other_rules=others,
        undiagnosed=undiagnosed,
        unreadable=unreadable,
        notes=[
            *(note for note in (session_note(own.diagnosis), estimate_note(own.diagnosis)) if note),
            *ranking_notes(others, undiagnosed, unreadable),
        ],
    )


def percent_worse(value: float, others: Sequence[float], *, more_is_better: bool) -> float:
    """Return the percentage of `others` that a value is better than; ties count half. `others` must not be empty."""
    return _standing(value, others, more_is_better=more_is_better).percent_worse


def _standing(value: float, others: Sequence[float], *, more_is_better: bool) -> Standing:
    worse = sum(other < value if more_is_better else other > value for other in others)
    return Standing(worse, others.count(value), len(others))


def _kind(metadata: Metadata | None) -> tuple[str, str, str] | None:
    return None if metadata is None else (metadata.tenant_id, metadata.benchmark_id, metadata.difficulty_tier)


def _placement(figure: str, own: Figures, comparable: Sequence[Figures]) -> Placement:
    value: float | None = getattr(own, figure)
    known = [other for figures in comparable if (other := getattr(figures, figure)) is not None]
    if value is None:
        return placement_of(figure, None, Standing(0, 0, len(known)), len(comparable))
    standing = _standing(value, known, more_is_better=MORE_IS_BETTER[figure])
    return placement_of(figure, value, standing, len(comparable))


def placement_of(figure: str, value: float | None, standing: Standing, comparable: int) -> Placement:
    """Return the rank of a run by a figure among so many comparable runs."""
    percent = None
    if value is None:
        statement = "unknown for this run"
    elif standing.known < MIN_OTHERS:
        statement = f"too few runs: {counted(standing.known, 'other run')}, at least {MIN_OTHERS} needed"
    else:
        percent = standing.percent_worse
        statement = f"better than {percent:g}% of {standing.known} other runs"
    unknown = comparable - standing.known
    if unknown:
        statement += f" ({counted(unknown, 'other')} left out: value unknown)"
    return Placement(
        figure=figure,
        value=value,
        better_than_percent=percent,
        others=standing.known,
        unknown=unknown,
        statement=statement,
    )


def ranking_notes(others: list[str], undiagnosed: Sequence[str] = (), unreadable: Sequence[str] = ()) -> list[str]:
    """Return which runs are left out, and why."""
    notes = []
    if others:
        left_out = f"{counted(len(others), 'run')} diagnosed with another rule set and left out: {list_names(others)}"
        notes.append(f"{left_out}; run {diagnose_command(others[0], 'RUN')} to use the current rules")
    if undiagnosed:
        notes.append(f"{counted(len(undiagnosed), 'run')} without a diagnosis and left out: {list_names(undiagnosed)}")
    if unreadable:
        notes.append(f"{counted(len(unreadable), 'run')} with an unreadable record: {list_names(unreadable)}")
    return notes
