"""Repeated runs: one value per run, and how the values vary."""

from __future__ import annotations

from statistics import median, variance

import pytest
from hypothesis import given
from hypothesis import strategies as st
from timelines import Line, end, in_order, line, real_events, real_timeline, request, span, start, summary_of

from critiqor.model.timeline import RepeatedFigures, RepeatedTimings, SpanFigures, TimelineSummary
from critiqor.timeline import attribute_turns, read_timeline
from critiqor.timeline.repeated_runs import PARTS, repeated_figures
from critiqor.timeline.reports.layout import as_lines, as_markdown
from critiqor.timeline.reports.repetition_report import repetition_parts


def turn_of(run: str, at: float, took: float) -> list[Line]:
    """Return a turn that spends half of its time with the provider, and the rest before and after it."""
    root = span("agent.turn", run, at, at + took, attributes={"runId": run}, phase="agent-turn")
    return in_order(root, request(run, 1, at + took / 4, took / 2))


def gateway(ready: float) -> list[Line]:
    return [
        *span("gateway.load", "g", 0, ready - 10),
        line("mark", "gateway.ready", ready, durationMs=ready),
    ]


def named(figures: list[RepeatedFigures], kind: str, name: str) -> RepeatedFigures:
    [found] = [each for each in figures if (each.kind, each.name) == (kind, name)]
    return found


def test_turns_and_their_parts_vary_from_run_to_run() -> None:
    figures = repeated_figures([summary_of(*turn_of("run-a", 0, took)) for took in (1000, 2000, 6000)])
    turn = named(figures, "turn", "turn")
    assert (turn.runs, turn.median_ms, turn.p95_ms, turn.max_ms) == (3, 2000, 6000, 6000)
    assert turn.variance_ms2 == variance([1000, 2000, 6000])
    provider = named(figures, "turn_part", "with_provider")
    assert (provider.median_ms, provider.max_ms) == (1000, 3000)
    assert provider.variance_ms2 == variance([500, 1000, 3000])
    assert [each.name for each in figures if each.kind == "turn_part"] == list(PARTS)


def test_a_run_counts_once_however_many_turns_it_had() -> None:
    many = in_order(*(turn_of(f"run-{number}", 10_000 * number, 1000) for number in range(9)))
    one = turn_of("run-a", 0, 3000)
    turn = named(repeated_figures([summary_of(*many), summary_of(*one)]), "turn", "turn")
    assert (turn.runs, turn.median_ms) == (2, 2000)


def test_turn_whose_end_was_not_seen_is_ignored() -> None:
    cut = [start("agent.turn", "t", 0, phase="agent-turn"), *span("config.load", "c", 10, 5000)]
    figures = repeated_figures([summary_of(*cut), summary_of(*turn_of("run-a", 0, 1000))])
    assert named(figures, "turn", "turn").runs == 1


def test_start_up_until_ready_is_separate_from_one_that_never_was() -> None:
    unready = span("gateway.load", "g", 0, 700)
    figures = repeated_figures([summary_of(*gateway(4000)), summary_of(*gateway(5000)), summary_of(*unready)])
    ready = named(figures, "startup", "gateway until ready")
    assert (ready.runs, ready.median_ms, ready.max_ms) == (2, 4500, 5000)
    assert named(figures, "startup", "gateway to first work").runs == 1


def test_span_that_happens_once_gives_its_duration_and_one_that_repeats_its_median() -> None:
    def lines(once: float, *many: float) -> list[Line]:
        ends = [end("plugins.scan", f"s{number}", 9000 + number, took) for number, took in enumerate(many)]
        return [*span("plugins.load", "p", 0, once), *ends]

    figures = repeated_figures([summary_of(*lines(100, 1, 2, 900)), summary_of(*lines(300, 4, 4, 4))])
    once, many = named(figures, "span", "plugins.load"), named(figures, "span", "plugins.scan")
    assert (once.median_ms, once.max_ms) == (200, 300)
    assert (many.median_ms, many.max_ms) == (3, 4)
    assert [each.name for each in figures if each.kind == "span"] == ["plugins.load", "plugins.scan"]


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50))
def test_figures_are_those_of_the_values(values: list[float]) -> None:
    def run(value: float) -> TimelineSummary:
        span_figures = SpanFigures(
            name="a", count=1, failed=0, total_ms=value, self_ms=value, p50_ms=value, p95_ms=value, max_ms=value
        )
        return TimelineSummary(present=True, span_figures=[span_figures])

    [figures] = repeated_figures([run(value) for value in values])
    assert figures.runs == len(values)
    assert figures.median_ms == pytest.approx(median(values), abs=0.001)
    assert figures.max_ms == max(values)
    assert sum(value <= figures.p95_ms for value in values) >= 0.95 * len(values)
    assert sum(value >= figures.p95_ms for value in values) >= 0.05 * len(values)
    if len(values) == 1:
        assert figures.variance_ms2 is None
    else:
        assert figures.variance_ms2 == pytest.approx(variance(values), abs=0.001)


def test_real_run_has_start_up_turn_parts_providers_and_spans() -> None:
    name = "2026.9.6-gateway"
    summary = read_timeline(real_timeline(name))
    summary.turns = attribute_turns(summary.turns, real_events(name))
    figures = repeated_figures([summary, summary, summary])
    assert [each.kind for each in figures] == sorted(
        (each.kind for each in figures), key=["startup", "turn", "turn_part", "provider", "span"].index
    )
    assert {each.runs for each in figures} == {3}
    assert {each.variance_ms2 for each in figures} == {0}
    assert named(figures, "startup", "gateway until ready").median_ms > 1000
    timings = RepeatedTimings(runs=["run_001", "run_002", "run_003"], profiled=True, figures=figures)
    lines = as_lines(repetition_parts(timings))
    assert lines[1] == "  3 runs: run_001 run_002 run_003"
    assert "--deep-profile" in lines[2]
    assert any(line.split()[:4] == ["gateway", "until", "ready", "3"] for line in lines)
    assert "| `before provider` | 3 |" in as_markdown(repetition_parts(timings))


def test_nothing_repeated_is_nothing() -> None:
    assert repeated_figures([]) == []
    assert repeated_figures([TimelineSummary(present=False)]) == []
