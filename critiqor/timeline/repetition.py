"""A run that was repeated: how its times vary from run to run.

Each run gives one value a figure, so that a run with many samples weighs no more than another:

- start-up: how long a process took until it was ready, or to its first work, by role; the slowest one of each role
- a turn and each part of it: the median over the turns of the run whose end was seen
- a span name and requests to providers: their median; where there was one, that is its duration

Totals are not used: they grow with what a run had to do, and not only with how long that took.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from math import ceil
from statistics import median, variance
from typing import NamedTuple

from critiqor.model.timeline import TimelineSummary, TurnSplit
from critiqor.model.timing import RepeatedFigures, RepeatedKind, RepeatedTimings
from critiqor.timeline.comparison import PROVIDERS
from critiqor.timeline.formatting import count_of, ms
from critiqor.timeline.layout import Item, Name, Part, Piece, Table

MOST_ROWS = 20
TURN = "turn"
PARTS = tuple(name.removesuffix("_ms") for name in TurnSplit.__struct_fields__ if name.endswith("_ms"))

_TITLES: dict[RepeatedKind, str] = {
    "startup": "Start-up",
    "turn": "Turns",
    "turn_part": "Parts of a turn",
    "provider": "Requests to providers",
    "span": "Spans by name, those with the longest medians",
}
"""In the order in which they are told."""
_ORDER = list(_TITLES)


class _Figure(NamedTuple):
    kind: RepeatedKind
    name: str


def repeated_figures(summaries: Sequence[TimelineSummary]) -> list[RepeatedFigures]:
    """How the times of a run vary, from one summary for each time that it was run.

    Start-up first, then turns, their parts in order, providers, and spans with the longest medians first.
    """
    values: defaultdict[_Figure, list[float]] = defaultdict(list)
    for summary in summaries:
        for figure, value in _values(summary):
            values[figure].append(value)
    told = [_figures(figure, value) for figure, value in values.items()]
    return sorted(told, key=_in_order)


def _values(summary: TimelineSummary) -> Iterator[tuple[_Figure, float]]:
    """One value for each figure of a run."""
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


def _in_order(told: RepeatedFigures) -> tuple[int, float, str]:
    place = PARTS.index(told.name) if told.kind == "turn_part" else -told.median_ms
    return (_ORDER.index(told.kind), place, told.name)


def repetition_parts(timings: RepeatedTimings) -> list[Part]:
    """A repeated run for people."""
    items = [Item(0, [f"{count_of(len(timings.runs), 'run')}: ", Name(" ".join(timings.runs))])]
    if timings.profiled:
        items.append(Item(0, ["All of them were deeply profiled: everything took longer than it does otherwise."]))
    items.append(Item(0, ["One value a run; of what happened several times in a run its median."]))
    items += [Item(0, [note]) for note in timings.notes]
    parts = [Part("Repeated runs", items)]
    for kind, title in _TITLES.items():
        rows = [_row(told) for told in timings.figures if told.kind == kind]
        if rows:
            more = (
                [Item(0, [f"the first {MOST_ROWS} of {len(rows)} (--json has all):"])] if len(rows) > MOST_ROWS else []
            )
            heads = ["", "runs", "median", "p95", "max", "deviation", "variance"]
            parts.append(Part(title, more, Table(heads, rows[:MOST_ROWS])))
    return parts


def _row(told: RepeatedFigures) -> list[Piece]:
    variance_ms2 = told.variance_ms2
    deviation = "" if variance_ms2 is None else ms(variance_ms2**0.5)
    squared = "" if variance_ms2 is None else f"{variance_ms2:.3g} ms²"
    name = told.name.replace("_", " ") if told.kind == "turn_part" else told.name
    return [Name(name), str(told.runs), *map(ms, (told.median_ms, told.p95_ms, told.max_ms)), deviation, squared]
