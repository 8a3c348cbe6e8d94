"""Variation of the times of a run that was repeated.

Each run contributes one value per figure, so that a run with many samples has no more weight than another:

- start-up: the time until a process was ready, or until its first work, by role; the slowest process of each role
- a turn and each of its parts: the median over the turns of the run whose end was seen
- a span name, and requests to providers: the median

Totals are not used: they grow with the work that a run had to do.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from math import ceil
from statistics import median, variance
from typing import NamedTuple, get_args

from critiqor.model.timeline import RepeatedFigures, RepeatedKind, TimelineSummary, TurnSplit
from critiqor.timeline.comparison import PROVIDERS

TURN = "turn"
PARTS = tuple(name.removesuffix("_ms") for name in TurnSplit.__struct_fields__ if name.endswith("_ms"))

_ORDER = get_args(RepeatedKind)


class _Figure(NamedTuple):
    kind: RepeatedKind
    name: str


def repeated_figures(summaries: Sequence[TimelineSummary]) -> list[RepeatedFigures]:
    """Return how the times of a run vary, from one summary per repetition.

    Start-up comes first, then turns, their parts in order, providers, and spans with the longest median first.
    """
    values: defaultdict[_Figure, list[float]] = defaultdict(list)
    for summary in summaries:
        for figure, value in _values(summary):
            values[figure].append(value)
    return sorted((_figures(figure, value) for figure, value in values.items()), key=_sort_key)


def _values(summary: TimelineSummary) -> Iterator[tuple[_Figure, float]]:
    """Yield one value for each figure of a run."""
    slowest: dict[str, float] = {}
    for startup in summary.startups:
        name = f"{startup.role} until ready" if startup.ready else f"{startup.role} to first work"
        slowest[name] = max(slowest.get(name, 0.0), startup.path.duration_ms)
    for name, duration in slowest.items():
        yield _Figure("startup", name), duration
    turns = [turn for turn in summary.turns if turn.ended]
    if turns:
        yield _Figure("turn", TURN), median(turn.duration_ms for turn in turns)
        for part in PARTS:
            yield _Figure("turn_part", part), median(getattr(turn.split, f"{part}_ms") for turn in turns)
    if summary.providers.p50_ms is not None:
        yield _Figure("provider", PROVIDERS), summary.providers.p50_ms
    for span in summary.span_figures:
        yield _Figure("span", span.name), span.p50_ms


def _figures(figure: _Figure, values: list[float]) -> RepeatedFigures:
    ordered = sorted(values)
    return RepeatedFigures(
        kind=figure.kind,
        name=figure.name,
        runs=len(ordered),
        median_ms=round(median(ordered), 3),
        p95_ms=ordered[ceil(0.95 * len(ordered)) - 1],
        max_ms=ordered[-1],
        variance_ms2=round(variance(ordered), 3) if len(ordered) > 1 else None,
    )


def _sort_key(figures: RepeatedFigures) -> tuple[int, float, str]:
    place = PARTS.index(figures.name) if figures.kind == "turn_part" else -figures.median_ms
    return (_ORDER.index(figures.kind), place, figures.name)
