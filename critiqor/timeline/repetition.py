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
from typing import NamedTuple

from critiqor.model.formatting import counted
from critiqor.model.timeline import RepeatedFigures, RepeatedKind, RepeatedTimings, TimelineSummary, TurnSplit
from critiqor.timeline.comparison import PROVIDERS
from critiqor.timeline.formatting import ms
from critiqor.timeline.layout import Item, Name, Part, Piece, Table

MAX_ROWS = 20
TURN = "turn"
PARTS = tuple(name.removesuffix("_ms") for name in TurnSplit.__struct_fields__ if name.endswith("_ms"))

_TITLES: dict[RepeatedKind, str] = {
    "startup": "Start-up",
    "turn": "Agent runs",
    "turn_part": "Parts of an agent run",
    "provider": "Requests to providers",
    "span": "Spans by name, longest median first",
}
"""In the order of the report."""
_ORDER = list(_TITLES)


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


def repetition_parts(timings: RepeatedTimings) -> list[Part]:
    """Return the sections of a report of the repeated runs."""
    items = [Item(0, [f"{counted(len(timings.runs), 'run')}: ", Name(" ".join(timings.runs))])]
    if timings.profiled:
        items.append(Item(0, ["All of them were recorded with --deep-profile, which makes everything slower."]))
    items.append(Item(0, ["Each run counts as one value: the median, if something happened several times in it."]))
    items += [Item(0, [note]) for note in timings.notes]
    parts = [Part("Repeated runs", items)]
    for kind, title in _TITLES.items():
        rows = [_row(figures) for figures in timings.figures if figures.kind == kind]
        if rows:
            more = [Item(0, [f"the first {MAX_ROWS} of {len(rows)} (--json has all):"])] if len(rows) > MAX_ROWS else []
            heads = ["", "runs", "median", "p95", "max", "deviation", "variance"]
            parts.append(Part(title, more, Table(heads, rows[:MAX_ROWS])))
    return parts


def _row(figures: RepeatedFigures) -> list[Piece]:
    variance_ms2 = figures.variance_ms2
    deviation = "" if variance_ms2 is None else ms(variance_ms2**0.5)
    squared = "" if variance_ms2 is None else f"{variance_ms2:.3g} ms²"
    name = figures.name.replace("_", " ") if figures.kind == "turn_part" else figures.name
    durations = (figures.median_ms, figures.p95_ms, figures.max_ms)
    return [Name(name), str(figures.runs), *map(ms, durations), deviation, squared]
