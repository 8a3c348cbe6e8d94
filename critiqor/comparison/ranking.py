"""How good is a run among its like? Its place within the runs of the same benchmark and difficulty.

Ties count half. What is unknown is left out and counted. Only runs judged by the same rules are alike.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from critiqor.comparison.figures import Figures, figures_of
from critiqor.model.formatting import counted
from critiqor.model.measures import list_names
from critiqor.model.record import Metadata
from critiqor.model.report import RunSummary

FEWEST_OTHERS = 5
"""Among fewer, a place says nothing."""
_MORE_IS_BETTER = {"trust": True, "cost_usd": False, "tokens": False, "wall_ms": False, "findings": False}
"""What runs are placed by."""


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """The place of a run by one figure."""

    figure: str
    value: int | float | None
    """Null where it is unknown for this run."""
    better_than_percent: float | None
    """Share of the other runs that are worse, those that are equal counted half; null where it cannot be told."""
    others: int
    """With how many other runs it was compared."""
    unknown: int
    """How many other runs were left out because theirs is unknown."""
    statement: str


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """The place of a run among its like."""

    run_id: str
    benchmark_id: str
    difficulty_tier: str
    rule_set_version: str
    others: int
    """How many other runs are comparable with it."""
    placements: list[Placement]
    judged_by_other_rules: list[str]
    """Runs of the same benchmark and difficulty that are not comparable until they are diagnosed again."""
    undiagnosed: list[str]
    """Runs of the same benchmark and difficulty without a diagnosis."""
    unreadable: list[str]
    """Runs whose record cannot be read, so that nobody knows where they belong."""
    notes: list[str]


def standing_of(run_id: str, cases: Sequence[RunSummary]) -> Standing:
    """The place of a diagnosed run among the runs of its folder. Raises `ValueError` where it has no diagnosis."""
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
    return Standing(
        run_id=run_id,
        benchmark_id=own.metadata.benchmark_id,
        difficulty_tier=own.metadata.difficulty_tier,
        rule_set_version=rules,
        others=len(comparable),
        placements=[_placement(figure, figures_of(own.diagnosis), comparable) for figure in _MORE_IS_BETTER],
        judged_by_other_rules=others,
        undiagnosed=undiagnosed,
        unreadable=unreadable,
        notes=_notes(others, undiagnosed, unreadable),
    )


def percent_worse(value: float, others: Sequence[float], *, more_is_better: bool) -> float:
    """Share of the others, in percent, that a value is better than; an equal one counts half. There are others."""
    worse = sum(other < value if more_is_better else other > value for other in others)
    return round(100 * (worse + others.count(value) / 2) / len(others), 1)


def _kind(metadata: Metadata | None) -> tuple[str, str] | None:
    return None if metadata is None else (metadata.benchmark_id, metadata.difficulty_tier)


def _placement(figure: str, own: Figures, comparable: Sequence[Figures]) -> Placement:
    value: float | None = getattr(own, figure)
    known = [other for figures in comparable if (other := getattr(figures, figure)) is not None]
    percent = None
    if value is None:
        statement = "unknown for this run"
    elif len(known) < FEWEST_OTHERS:
        statement = f"too few runs to say: {counted(len(known), 'other run')}, {FEWEST_OTHERS} are needed"
    else:
        percent = percent_worse(value, known, more_is_better=_MORE_IS_BETTER[figure])
        statement = f"better than {percent:g}% of {len(known)} other runs"
    unknown = len(comparable) - len(known)
    if unknown:
        statement += f" (unknown for {counted(unknown, 'other')}, left out)"
    return Placement(
        figure=figure,
        value=value,
        better_than_percent=percent,
        others=len(known),
        unknown=unknown,
        statement=statement,
    )


def _notes(others: list[str], undiagnosed: list[str], unreadable: list[str]) -> list[str]:
    notes = []
    if others:
        told = f"{counted(len(others), 'run')} judged by other rules and left out: {list_names(others)}"
        notes.append(f"{told}; critiqor diagnose RUN judges a run by the rules of today")
    if undiagnosed:
        notes.append(f"{counted(len(undiagnosed), 'run')} without a diagnosis, left out: {list_names(undiagnosed)}")
    if unreadable:
        notes.append(f"{counted(len(unreadable), 'run')} with a record that cannot be read: {list_names(unreadable)}")
    return notes
