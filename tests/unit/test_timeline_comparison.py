"""Comparison of two timelines: slower names are found, noise is not reported."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import exp
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from timelines import real_timeline, request, span, summary_of

from critiqor.model.timeline import SpanComparison, SpanFigures, TimelineSummary, TimingComparison, TimingVerdict
from critiqor.timeline import read_timeline
from critiqor.timeline.comparison import MIN_SAMPLES, compare_timelines
from critiqor.timeline.durations import Durations
from critiqor.timeline.reports.comparison_report import comparison_parts
from critiqor.timeline.reports.layout import as_lines, as_markdown

Draw = Callable[[Random], float]


def lognormal(middle: float, spread: float) -> Draw:
    return lambda chance: middle * exp(spread * chance.gauss(0, 1))


def mixed(share: float, one: Draw, other: Draw) -> Draw:
    """Draw one of two kinds of duration: a cache that is hit or missed, a request that hangs."""
    return lambda chance: one(chance) if chance.random() < share else other(chance)


STEADY: dict[str, Draw] = {
    "the same but for a millisecond": lambda chance: round(1000 + chance.gauss(0, 1)),
    "normal": lambda chance: 1000 + 50 * chance.gauss(0, 1),
    "narrow": lognormal(100, 0.1),
    "usual": lognormal(400, 0.3),
    "a fixed part and a tail": lambda chance: 300 + 20 * exp(chance.gauss(0, 1)),
}
WILD: dict[str, Draw] = {
    "wide": lognormal(400, 0.6),
    "very wide": lognormal(50, 1.0),
    "exponential": lambda chance: chance.expovariate(1 / 300),
    "heavy tail": lambda chance: 200 * chance.paretovariate(3),
    "very heavy tail": lambda chance: 50 * chance.paretovariate(1.5),
    "some hang": mixed(0.05, lognormal(2000, 0.15), lognormal(100, 0.15)),
    "some are tenfold": mixed(0.2, lognormal(1000, 0.2), lognormal(100, 0.2)),
    "half are double": mixed(0.5, lognormal(200, 0.05), lognormal(100, 0.05)),
    "most are double": mixed(0.7, lognormal(200, 0.05), lognormal(100, 0.05)),
    "half are nothing": mixed(0.5, lognormal(60, 0.2), lognormal(0.2, 0.2)),
    "bounded above": lambda chance: 1000 * (1 - chance.betavariate(1, 3)),
}
SIZES = ((5, 5), (5, 12), (8, 8), (12, 12), (20, 20), (20, 100))
ROUNDS = 150


def figures(values: Iterable[float], name: str = "plugins.load") -> SpanFigures:
    """Return the figures of spans with these durations."""
    durations = Durations()
    durations.pending.extend(values)
    stats = durations.stats()
    return SpanFigures(
        name=name,
        count=stats.samples,
        failed=0,
        total_ms=stats.total,
        self_ms=stats.total,
        p50_ms=stats.p50,
        p95_ms=stats.p95,
        max_ms=stats.max,
    )


def of(*names: SpanFigures) -> TimelineSummary:
    return TimelineSummary(present=True, span_figures=list(names))


def compared(before: TimelineSummary, after: TimelineSummary) -> TimingComparison:
    return compare_timelines(before, after, profiled_before=False, profiled_after=False)


def only(before: Iterable[float], after: Iterable[float]) -> SpanComparison:
    [row] = compared(of(figures(before)), of(figures(after))).spans
    return row


def verdicts(draw: Draw, factor: float, sizes: Iterable[tuple[int, int]]) -> list[TimingVerdict]:
    """Return the verdicts on pairs of runs, the second of which takes `factor` times as long."""
    chance = Random(20_261_106)
    return [
        only((draw(chance) for _ in range(first)), (factor * draw(chance) for _ in range(second))).verdict
        for first, second in sizes
        for _ in range(ROUNDS)
    ]


def share(said: list[TimingVerdict], *wanted: TimingVerdict) -> float:
    return sum(verdict in wanted for verdict in said) / len(said)


@pytest.mark.parametrize("draw", [*STEADY.values(), *WILD.values()], ids=[*STEADY, *WILD])
def test_two_runs_that_do_not_differ_are_called_noise(draw: Draw) -> None:
    said = verdicts(draw, 1.0, SIZES)
    assert share(said, "slower", "faster") < 0.025


def test_of_all_names_that_do_not_differ_hardly_one_in_a_hundred_is_called_different() -> None:
    said = [verdict for draw in (*STEADY.values(), *WILD.values()) for verdict in verdicts(draw, 1.0, SIZES)]
    assert share(said, "slower", "faster") < 0.0125


@pytest.mark.parametrize("draw", STEADY.values(), ids=STEADY)
@pytest.mark.parametrize("samples", [10, 15, 20])
def test_what_takes_twice_as_long_is_found_most_of_the_time(draw: Draw, samples: int) -> None:
    assert share(verdicts(draw, 2.0, [(samples, samples)]), "slower") > 0.8
    assert share(verdicts(draw, 0.5, [(samples, samples)]), "faster") > 0.8


@pytest.mark.parametrize("name", ["wide", "heavy tail", "bounded above", "half are double"])
def test_what_varies_widely_needs_more_samples(name: str) -> None:
    assert share(verdicts(WILD[name], 2.0, [(100, 100)]), "slower") > 0.7


@pytest.mark.parametrize("draw", [*STEADY.values(), *WILD.values()], ids=[*STEADY, *WILD])
def test_what_takes_twice_as_long_is_hardly_ever_called_faster(draw: Draw) -> None:
    assert share(verdicts(draw, 2.0, SIZES), "faster") < 0.005


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=30), st.lists(st.floats(0, 1e6), min_size=1, max_size=30))
def test_the_other_way_round_the_verdict_is_the_other_one(before: list[float], after: list[float]) -> None:
    there, back = only(before, after), only(after, before)
    other = {"slower": "faster", "faster": "slower"}
    assert back.verdict == other.get(there.verdict, there.verdict)
    assert back.least_ratio == there.least_ratio


@pytest.mark.parametrize("few", range(1, MIN_SAMPLES))
def test_few_samples_have_no_verdict_but_both_figures(few: int) -> None:
    comparison = compared(of(figures([100.0] * few)), of(figures([900.0] * 50)))
    [row] = comparison.spans
    assert (row.verdict, row.least_ratio) == ("too_few", None)
    assert (row.before.p50_ms, row.after.p50_ms, row.p50_ratio) == (100, 900, 9)
    text = "\n".join(as_lines(comparison_parts(comparison)))
    assert "100 ms → 900 ms" in text
    assert "cannot be distinguished from noise" in text
    assert "critiqor timeline RUN RUN" in text


def test_difference_of_a_few_milliseconds_is_noise() -> None:
    assert only([2.0] * 50, [6.0] * 50).verdict == "noise"
    assert only([2.0] * 50, [8.0] * 50).verdict == "slower"
    assert only([1000.0] * 500, [1090.0] * 500).verdict == "noise"
    assert only([1000.0] * 500, [1300.0] * 500).verdict == "slower"


def test_usual_difference_between_whole_runs_is_noise() -> None:
    assert only([1000.0] * 500, [1130.0] * 500).verdict == "noise"


def test_one_sample_that_hangs_makes_nothing_slower() -> None:
    assert only([100.0] * 12, [*[100.0] * 11, 60_000.0]).verdict == "noise"


def test_smallest_ratio_that_counts_is_shown() -> None:
    chance = Random(4)
    row = only((lognormal(100, 0.5)(chance) for _ in range(12)), (lognormal(110, 0.5)(chance) for _ in range(12)))
    assert row.verdict == "noise"
    assert row.least_ratio is not None
    assert 1.3 < row.least_ratio < 3


def test_requests_to_providers_are_one_more_name_and_no_span_is_taken_for_them() -> None:
    def asked(took: float) -> TimelineSummary:
        named = span("provider.request", "a", 0, 10)
        return summary_of(*named, *(request("run-a", call, 1000 * call, took) for call in range(1, 9)))

    rows = {row.kind: row for row in compared(asked(200), asked(500)).spans}
    assert rows["provider"].verdict == "slower"
    assert (rows["provider"].before.count, rows["provider"].after.max_ms) == (8, 500)
    assert (rows["span"].name, rows["span"].verdict) == ("provider.request", "too_few")


def test_names_that_only_one_run_has_are_listed() -> None:
    comparison = compared(
        of(figures([30.0], "both"), figures([20.0], "gone")), of(figures([30.0], "both"), figures([9.0], "new"))
    )
    assert (comparison.only_before, comparison.only_after) == (["gone"], ["new"])
    assert [row.name for row in comparison.spans] == ["both"]
    text = "\n".join(as_lines(comparison_parts(comparison)))
    assert "only before: gone" in text
    assert "only after: new" in text


def test_what_changed_comes_first_and_then_what_took_the_most_time() -> None:
    names = ("same", "slow", "quick", "rare", "long")
    before = of(*(figures([400.0] * (3 if name == "rare" else 50), name) for name in names))
    took = {"slow": 900.0, "quick": 100.0, "long": 401.0}
    after = of(*(figures([took.get(name, 400.0)] * (3 if name == "rare" else 50), name) for name in names))
    comparison = compared(before, after)
    assert [(row.name, row.verdict) for row in comparison.spans] == [
        ("slow", "slower"),
        ("quick", "faster"),
        ("long", "noise"),
        ("same", "noise"),
        ("rare", "too_few"),
    ]
    assert comparison.summary == "5 names in both: 1 slower, 1 faster, 2 within noise, 1 too few samples"


@pytest.mark.parametrize("first", [True, False])
def test_profiled_run_is_never_compared_with_one_that_was_not(first: bool) -> None:
    slow, quick = of(figures([900.0] * 50)), of(figures([100.0] * 50))
    comparison = compare_timelines(slow, quick, profiled_before=first, profiled_after=not first)
    assert not comparison.comparable
    assert (comparison.spans, comparison.only_before, comparison.only_after) == ([], [], [])
    assert f"the run {'before' if first else 'after'} was deeply profiled" in comparison.summary
    assert "not compared" in "\n".join(as_lines(comparison_parts(comparison)))


def test_two_profiled_runs_are_compared_and_marked() -> None:
    timeline = of(figures([900.0] * 50))
    comparison = compare_timelines(timeline, timeline, profiled_before=True, profiled_after=True)
    assert comparison.comparable
    assert len(comparison.spans) == 1
    assert "both runs were deeply profiled" in "\n".join(as_lines(comparison_parts(comparison)))


def test_run_without_a_timeline_is_named_with_the_reason() -> None:
    absent = TimelineSummary(present=False, unavailable="it was recorded with --no-timeline")
    comparison = compared(of(figures([900.0] * 50)), absent)
    assert not comparison.comparable
    assert comparison.summary == "no timeline of the run after: it was recorded with --no-timeline"


@pytest.mark.parametrize("name", ["2026.9.6-gateway", "2026.9.6-local", "2026.6.1-gateway"])
def test_real_timeline_does_not_differ_from_itself(name: str) -> None:
    summary = read_timeline(real_timeline(name))
    comparison = compared(summary, summary)
    assert {row.verdict for row in comparison.spans} <= {"noise", "too_few"}
    assert len(comparison.spans) == len(summary.span_figures) + bool(summary.providers.count)
    assert comparison.only_before == comparison.only_after == []


def test_name_from_a_file_becomes_neither_markup_nor_a_line() -> None:
    hostile = "a | b\n# `c`\x1b[2J"
    comparison = compared(of(figures([1.0], hostile), figures([1.0], hostile + "x")), of(figures([1.0], hostile)))
    markdown = as_markdown(comparison_parts(comparison))
    assert "\x1b" not in markdown
    assert "| `a \\| b # 'c' [2J` |" in markdown
    assert "\n# " not in markdown
