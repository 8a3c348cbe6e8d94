"""Comparison of the timelines of two runs by span name: what became slower or faster.

A difference between two runs counts only if it is larger than chance can explain, and large enough to matter:

1. Both runs have at least five samples of the name. With fewer, noise cannot be estimated from one run.
2. Durations are compared by their logarithms. The spread of each side is taken from how far the 95th percentile is
   above the median, as in a normal distribution. The error of a difference of medians follows from both spreads
   and both sample counts, and from the five percent by which the speed of a whole run varies.
3. The medians differ by more than 2 + 3 / (samples - 1) such errors, with the smaller of the two sample counts: the
   spread of few samples is uncertain.
4. The means differ by as much in the same direction, without the longest sample of each side. Where durations have
   two typical values (a cache that was hit or missed), the median jumps from one to the other by chance, and the mean
   does not.
5. The medians differ by more than ten percent, and by more than five milliseconds.

A name shared by operations of many kinds has a large spread, so a small difference in it never counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil, exp, hypot, log, pi, sqrt
from statistics import NormalDist

from critiqor.model.formatting import counted
from critiqor.model.timeline import (
    ComparedKind,
    ProviderFigures,
    SpanComparison,
    SpanFigures,
    TimelineSummary,
    TimingComparison,
    TimingVerdict,
)
from critiqor.timeline.summary import MAX_NAMES_LISTED

MIN_SAMPLES = 5
"""Minimum number of samples of each run."""
ERRORS = 2.0
EXTRA_ERRORS = 3.0
"""Divided by the number of samples minus one and added to ERRORS: few samples need a larger difference."""
DRIFT = 0.05
"""Relative variation of the speed of a whole run."""
MIN_RATIO = 1.1
MIN_DIFFERENCE_MS = 5.0
MIN_DURATION_MS = 0.001
"""Minimum duration in milliseconds; shorter values are rounding artifacts."""
PROVIDERS = "provider.request"

VERDICT_TEXTS: dict[TimingVerdict, str] = {
    "slower": "slower",
    "faster": "faster",
    "noise": "within noise",
    "too_few": "too few samples",
}
"""Texts of the verdicts, in table order."""
_ORDER = list(VERDICT_TEXTS)
_NORMAL = NormalDist()


def compare_timelines(
    before: TimelineSummary, after: TimelineSummary, *, profiled_before: bool, profiled_after: bool
) -> TimingComparison:
    """Compare two timelines by span name; requests to providers are one more name.

    A run that was deeply profiled is never compared with one that was not.
    """
    reason = _why_not_comparable(before, after, profiled_before, profiled_after)
    if reason is not None:
        return TimingComparison(
            summary=reason, comparable=False, profiled_before=profiled_before, profiled_after=profiled_after
        )
    first, second = _by_name(before), _by_name(after)
    spans = [_compare(first[key], second[key], kind=key[0]) for key in first.keys() & second.keys()]
    spans.sort(key=_sort_key)
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


def _why_not_comparable(
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
    """Return the figures by kind and name, the longest total first."""
    known: dict[tuple[ComparedKind, str], SpanFigures] = {("span", each.name): each for each in summary.span_figures}
    requests = _provider_figures(summary.providers)
    return known if requests is None else {("provider", PROVIDERS): requests, **known}


def _provider_figures(providers: ProviderFigures) -> SpanFigures | None:
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


def _compare(before: SpanFigures, after: SpanFigures, *, kind: ComparedKind) -> SpanComparison:
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
    """Return the factor by which the medians must differ to count; None if there are too few samples."""
    fewest = min(before.count, after.count)
    if fewest < MIN_SAMPLES:
        return None
    spread = hypot(_spread(before), _spread(after)) / sqrt(2)
    # The error of a median is that of a mean times the square root of pi / 2.
    error = hypot(spread * sqrt(pi / 2 * (1 / before.count + 1 / after.count)), DRIFT * sqrt(2))
    return max(MIN_RATIO, exp((ERRORS + EXTRA_ERRORS / (fewest - 1)) * error))


def _spread(figures: SpanFigures) -> float:
    """Return the standard deviation of the logarithms, estimated from the median and the 95th percentile."""
    above = log(_clamp(figures.p95_ms) / _clamp(figures.p50_ms))
    return above / (_normal_position(0.95, figures.count) - _normal_position(0.5, figures.count))


def _normal_position(share: float, count: int) -> float:
    """Return the expected position of this quantile of `count` samples, in standard deviations from the mean."""
    return _NORMAL.inv_cdf((ceil(share * count) - 0.375) / (count + 0.25))


def _verdict(before: SpanFigures, after: SpanFigures, least: float) -> TimingVerdict:
    """Return the verdict; `least` is the logarithm of the smallest factor that counts."""
    medians = log(_clamp(after.p50_ms) / _clamp(before.p50_ms))
    means = log(_mean(after) / _mean(before))
    small = abs(after.p50_ms - before.p50_ms) <= MIN_DIFFERENCE_MS
    if small or min(abs(medians), abs(means)) <= least or (medians > 0) != (means > 0):
        return "noise"
    return "slower" if medians > 0 else "faster"


def _mean(figures: SpanFigures) -> float:
    """Return the mean without the longest duration: one span that hangs says nothing about the others."""
    return _clamp((figures.total_ms - figures.max_ms) / (figures.count - 1))


def _clamp(duration: float) -> float:
    return max(duration, MIN_DURATION_MS)


def _sort_key(span: SpanComparison) -> tuple[int, float, str, str]:
    taken = max(span.before.total_ms, span.after.total_ms)
    return (_ORDER.index(span.verdict), -taken, span.name, span.kind)


def _summary(spans: Sequence[SpanComparison]) -> str:
    if not spans:
        return "no span name is in both timelines"
    numbers = {verdict: sum(span.verdict == verdict for span in spans) for verdict in _ORDER}
    counts = [f"{number} {VERDICT_TEXTS[verdict]}" for verdict, number in numbers.items() if number]
    return f"{counted(len(spans), 'name')} in both: {', '.join(counts)}"


def _notes(
    before: TimelineSummary, after: TimelineSummary, spans: Iterable[SpanComparison], *, profiled: bool
) -> list[str]:
    notes = []
    if profiled:
        notes.append("both runs were deeply profiled, which makes everything slower")
    if any(span.verdict == "too_few" for span in spans):
        notes.append(
            f"a name with fewer than {MIN_SAMPLES} samples in a run cannot be distinguished from noise: "
            "repeat the run, then critiqor timeline RUN RUN …"
        )
    if max(len(before.span_figures), len(after.span_figures)) >= MAX_NAMES_LISTED:
        notes.append(
            f"a summary lists the {MAX_NAMES_LISTED} names that took the most time: a name listed for one run only may "
            "have taken too little time in the other"
        )
    return notes
