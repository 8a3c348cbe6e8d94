"""Did it become slower? The timelines of two runs, compared by span name.

A difference between two runs is believed only where it is larger than chance makes it, and large enough to matter:

1. Both runs have at least five samples of the name. Of fewer, one run cannot tell what is noise.
2. Durations are compared by their logarithms. The spread of each side is taken from how far the 95th percentile is
   above the median, as it is in a normal distribution. The error of a difference of medians follows from both spreads
   and both numbers, and from the five percent that a whole run is faster or slower by itself.
3. The medians differ by more than two such errors; by more where there are few samples, because their spread is then
   uncertain: by 2 + 3 / (samples - 1) errors, with the samples of the side that has fewer.
4. The means differ by as much in the same direction, the longest sample of each side left out. Where durations have
   two typical values (a cache that was hit or missed), the median jumps from one to the other by chance, and the mean
   does not.
5. The medians differ by more than ten percent, and by more than five milliseconds.

A name that stands for steps of many kinds has a large spread, and a small difference of it is never believed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil, exp, hypot, log, pi, sqrt
from statistics import NormalDist

from critiqor.model.timeline import ProviderFigures, SpanFigures, TimelineSummary
from critiqor.model.timing import ComparedKind, SpanComparison, TimingComparison, TimingVerdict
from critiqor.timeline.formatting import count_of, listed, ms
from critiqor.timeline.layout import Item, Name, Part, Piece, Table
from critiqor.timeline.reader.reading import MOST_NAMES_TOLD

FEWEST = 5
"""Samples of each side."""
ERRORS = 2.0
MORE_ERRORS = 3.0
"""Divided by the samples: how many errors more there must be where these are few."""
DRIFT = 0.05
"""What the speed of a whole run varies by, as a share."""
LEAST_RATIO = 1.1
LEAST_MS = 5.0
SHORTEST_MS = 0.001
"""What is shorter was not measured."""
PROVIDERS = "provider.request"
MOST_ROWS = 12
MOST_NAMES = 8

_MEANINGS: dict[TimingVerdict, str] = {
    "slower": "slower",
    "faster": "faster",
    "noise": "within noise",
    "too_few": "too few to tell",
}
"""In the order in which they are shown."""
_ORDER = list(_MEANINGS)
_NORMAL = NormalDist()


def compare_timelines(
    before: TimelineSummary, after: TimelineSummary, *, profiled_before: bool, profiled_after: bool
) -> TimingComparison:
    """What took longer or shorter in `after` than in `before`, by span name; requests to providers are one more name.

    A run that was deeply profiled is never compared with one that was not.
    """
    obstacle = _obstacle(before, after, profiled_before, profiled_after)
    if obstacle is not None:
        return TimingComparison(
            summary=obstacle, comparable=False, profiled_before=profiled_before, profiled_after=profiled_after
        )
    first, second = _by_name(before), _by_name(after)
    spans = [_compared(first[key], second[key], kind=key[0]) for key in first.keys() & second.keys()]
    spans.sort(key=_most_telling_first)
    return TimingComparison(
        summary=_summary(spans),
        comparable=True,
        profiled_before=profiled_before,
        profiled_after=profiled_after,
        spans=spans,
        only_before=[name for kind, name in first if (kind, name) not in second],
        only_after=[name for kind, name in second if (kind, name) not in first],
        notes=_notes(before, after, spans, profiled=profiled_before),
    )


def _obstacle(
    before: TimelineSummary, after: TimelineSummary, profiled_before: bool, profiled_after: bool
) -> str | None:
    missing = [
        f"no timeline of the run {which}: {summary.unavailable or 'unavailable'}"
        for which, summary in (("before", before), ("after", after))
        if not summary.present
    ]
    if missing:
        return "; ".join(missing)
    if profiled_before != profiled_after:
        profiled, other = ("before", "after") if profiled_before else ("after", "before")
        return (
            f"the run {profiled} was deeply profiled and the run {other} was not: profiling makes everything slower, "
            "so their times are not compared"
        )
    return None


def _by_name(summary: TimelineSummary) -> dict[tuple[ComparedKind, str], SpanFigures]:
    """The figures by kind and name, in their order, which is that of the time they took."""
    known: dict[tuple[ComparedKind, str], SpanFigures] = {("span", each.name): each for each in summary.span_figures}
    asked = _of_providers(summary.providers)
    return known if asked is None else {("provider", PROVIDERS): asked, **known}


def _of_providers(providers: ProviderFigures) -> SpanFigures | None:
    if providers.slowest is None or providers.p50_ms is None or providers.p95_ms is None:
        return None
    return SpanFigures(
        name=PROVIDERS,
        count=providers.count,
        failed=providers.failed,
        total_ms=providers.total_ms,
        self_ms=providers.total_ms,
        p50_ms=providers.p50_ms,
        p95_ms=providers.p95_ms,
        max_ms=providers.slowest.duration_ms,
    )


def _compared(before: SpanFigures, after: SpanFigures, *, kind: ComparedKind) -> SpanComparison:
    least = least_ratio(before, after)
    return SpanComparison(
        name=before.name,
        kind=kind,
        before=before,
        after=after,
        p50_ratio=_ratio(before.p50_ms, after.p50_ms),
        p95_ratio=_ratio(before.p95_ms, after.p95_ms),
        least_ratio=None if least is None else round(least, 3),
        verdict="too_few" if least is None else _verdict(before, after, log(least)),
    )


def _ratio(before: float, after: float) -> float | None:
    return round(after / before, 3) if before > 0 else None


def least_ratio(before: SpanFigures, after: SpanFigures) -> float | None:
    """By which factor the medians must differ, at least, to be believed; None where there are too few samples."""
    fewest = min(before.count, after.count)
    if fewest < FEWEST:
        return None
    spread = hypot(_spread(before), _spread(after)) / sqrt(2)
    # The error of a median is that of a mean times the root of half pi.
    error = hypot(spread * sqrt(pi / 2 * (1 / before.count + 1 / after.count)), DRIFT * sqrt(2))
    return max(LEAST_RATIO, exp((ERRORS + MORE_ERRORS / (fewest - 1)) * error))


def _spread(figures: SpanFigures) -> float:
    """The standard deviation of the logarithms, as the median and the 95th percentile tell it."""
    above = log(_at_least(figures.p95_ms) / _at_least(figures.p50_ms))
    return above / (_normal_place(0.95, figures.count) - _normal_place(0.5, figures.count))


def _normal_place(share: float, count: int) -> float:
    """Where the value that was told as this quantile of so many is expected, in standard deviations from the middle."""
    return _NORMAL.inv_cdf((ceil(share * count) - 0.375) / (count + 0.25))


def _verdict(before: SpanFigures, after: SpanFigures, least: float) -> TimingVerdict:
    """`least` is the logarithm of the factor that would be believed."""
    medians = log(_at_least(after.p50_ms) / _at_least(before.p50_ms))
    means = log(_mean(after) / _mean(before))
    small = abs(after.p50_ms - before.p50_ms) <= LEAST_MS
    if small or min(abs(medians), abs(means)) <= least or (medians > 0) != (means > 0):
        return "noise"
    return "slower" if medians > 0 else "faster"


def _mean(figures: SpanFigures) -> float:
    """Without the longest: one that hangs says nothing about the others."""
    return _at_least((figures.total_ms - figures.max_ms) / (figures.count - 1))


def _at_least(duration: float) -> float:
    return max(duration, SHORTEST_MS)


def _most_telling_first(span: SpanComparison) -> tuple[int, float, str, str]:
    taken = max(span.before.total_ms, span.after.total_ms)
    return (_ORDER.index(span.verdict), -taken, span.name, span.kind)


def _summary(spans: Sequence[SpanComparison]) -> str:
    if not spans:
        return "no span name is in both timelines"
    numbers = {verdict: sum(span.verdict == verdict for span in spans) for verdict in _ORDER}
    told = [f"{number} {_MEANINGS[verdict]}" for verdict, number in numbers.items() if number]
    return f"{count_of(len(spans), 'name')} in both: {', '.join(told)}"


def _notes(
    before: TimelineSummary, after: TimelineSummary, spans: Iterable[SpanComparison], *, profiled: bool
) -> list[str]:
    notes = []
    if profiled:
        notes.append("both runs were deeply profiled: everything took longer than it does otherwise")
    if any(span.verdict == "too_few" for span in spans):
        notes.append(
            f"what a run did fewer than {FEWEST} times has no spread, and one run cannot tell it from noise: "
            "repeat the run, then critiqor timeline RUN RUN …"
        )
    if max(len(before.span_figures), len(after.span_figures)) >= MOST_NAMES_TOLD:
        notes.append(
            f"a timeline tells the {MOST_NAMES_TOLD} names that took the most time: a name that only one run has may "
            "have been too short in the other"
        )
    return notes


def timing_parts(comparison: TimingComparison) -> list[Part]:
    """A comparison for people."""
    items = [Item(0, [comparison.summary])]
    shown = comparison.spans[:MOST_ROWS]
    for label, names in (("only before", comparison.only_before), ("only after", comparison.only_after)):
        if names:
            more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
            items.append(Item(0, [f"{label}: ", *listed(map(Name, names[:MOST_NAMES])), more]))
    items += [Item(0, [note]) for note in comparison.notes]
    if len(comparison.spans) > len(shown):
        items.append(Item(0, [f"the first {len(shown)} of {len(comparison.spans)} names (--json has all):"]))
    return [Part("Timing", items, _table(shown) if shown else None)]


def _table(spans: Iterable[SpanComparison]) -> Table:
    rows: list[list[Piece]] = []
    for span in spans:
        before, after = span.before, span.after
        rows.append(
            [
                Name(span.name),
                f"{before.count} → {after.count}",
                f"{ms(before.p50_ms)} → {ms(after.p50_ms)}",
                f"{ms(before.p95_ms)} → {ms(after.p95_ms)}",
                "" if span.p50_ratio is None else f"x{span.p50_ratio:.2f}",
                "" if span.least_ratio is None else f"x{span.least_ratio:.2f}",
                _MEANINGS[span.verdict],
            ]
        )
    return Table(["name", "times", "p50", "p95", "ratio", "noise up to", ""], rows)
