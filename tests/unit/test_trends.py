from __future__ import annotations

import pytest
from diagnosed import case, diagnosis, finding
from hypothesis import given, strategies

from critiqor.comparison.trends import MIN_FOR_DIRECTION, direction_of, trends_of
from critiqor.model import Metadata
from critiqor.model.report import RunSummary

AGENT = Metadata().agent_id


def series(*trusts: int | None) -> list[RunSummary]:
    return [case(diagnosis(f"run_{day:03d}", trust=trust), day) for day, trust in enumerate(trusts, 1)]


@pytest.mark.parametrize(
    ("trusts", "direction", "medians"),
    [
        ([], "no direction", (None, None)),
        ([10, 50, 100], "no direction", (None, None)),
        ([50, 60, 80, 90], "up", (55, 85)),
        ([90, 80, 60, 50], "down", (85, 55)),
        ([70, 70, 70, 70], "level", (70, 70)),
        ([50, 50, 0, 90, 90], "up", (50, 90)),
        ([100, 100, 100, 0, 100, 100], "level", (100, 100)),
    ],
)
def test_direction_of_trust(trusts: list[int], direction: str, medians: tuple[float | None, float | None]) -> None:
    assert direction_of(trusts) == (direction, *medians)


def test_summary_says_what_is_missing() -> None:
    result = trends_of(AGENT, series(50, None, 60, 70))
    assert result.direction == "no direction"
    assert "3 runs with a trust score, at least 4 needed" in result.summary
    assert result.notes == ["1 run without a trust score because no agent was observed: run_002"]
    assert trends_of(AGENT, series(50, 50, 60, 70)).summary == (
        "trust up: median 50 in the first half, 65 in the second, over 4 runs"
    )


def test_runs_are_listed_with_their_figures() -> None:
    first = case(diagnosis("run_001", finding("a:x"), trust=70, confidence=90, wall_ms=1500, cost_usd=0.25), 1)
    second = case(diagnosis("run_002", trust=None, wall_ms=None), 2)
    points = trends_of(AGENT, [first, second]).runs
    assert [point.run_id for point in points] == ["run_001", "run_002"]
    one = points[0]
    assert (one.trust, one.confidence, one.cost_usd, one.wall_ms, one.primary_type) == (70, 90, 0.25, 1500, "a")
    assert (points[1].trust, points[1].cost_usd, points[1].wall_ms, points[1].primary_type) == (None, None, None, None)


def test_causes_are_listed_with_count_first_run_and_last_run() -> None:
    cases = [
        case(diagnosis("run_001", finding("b", "low")), 1),
        case(diagnosis("run_002", finding("a", "medium"), finding("a", "high")), 2),
        case(diagnosis("run_003"), 3),
        case(diagnosis("run_004", finding("a", "low", title="latest")), 4),
    ]
    a, b = trends_of(AGENT, cases).causes
    assert (a.cause, a.runs, a.of, a.severity, a.title, a.in_latest) == ("a", 2, 4, "high", "latest", True)
    assert (a.first_run, a.last_run) == ("run_002", "run_004")
    assert (b.cause, b.runs, b.first_run, b.last_run, b.in_latest) == ("b", 1, "run_001", "run_001", False)
    assert b.first_at == b.last_at == cases[0].created_at


def test_a_cause_is_not_gone_if_the_latest_run_was_not_observed() -> None:
    seen, blind = case(diagnosis("run_001", finding("a")), 1), case(diagnosis("run_002", finding("b"), trust=None), 2)
    assert {cause.cause: cause.in_latest for cause in trends_of(AGENT, [seen, blind]).causes} == {"a": True, "b": True}


def test_only_the_agents_own_and_newest_runs_count() -> None:
    cases = [
        case(diagnosis("run_001", finding("old")), 1),
        case(diagnosis("run_002", finding("theirs")), 2, agent_id="other"),
        case(diagnosis("run_003", finding("mine")), 3),
    ]
    assert [point.run_id for point in trends_of(AGENT, cases).runs] == ["run_001", "run_003"]
    newest = trends_of(AGENT, cases, last=1)
    assert [cause.cause for cause in newest.causes] == ["mine"]
    assert [point.run_id for point in trends_of(AGENT, cases, last=9).runs] == ["run_001", "run_003"]


def test_runs_without_diagnosis_and_unreadable_ones_are_named() -> None:
    open_run = RunSummary(run_id="run_002", created_at="2", metadata=Metadata(), undiagnosed="not yet", fix="do this")
    broken = RunSummary(run_id="run_003", undiagnosed="broken")
    result = trends_of(AGENT, [*series(80), open_run, broken])
    assert [(run.run_id, run.reason, run.fix) for run in result.undiagnosed] == [("run_002", "not yet", "do this")]
    assert result.unreadable == ["run_003"]
    assert len(result.runs) == 1


def test_runs_diagnosed_with_other_rules_are_listed_but_not_counted() -> None:
    old = [case(diagnosis(f"run_{day:03d}", finding("a"), trust=10, rules="1"), day) for day in range(1, 4)]
    new = [case(diagnosis(f"run_{day:03d}", finding("a"), trust=90, rules="2"), day) for day in range(4, 8)]
    result = trends_of(AGENT, [*old, *new])
    assert (result.direction, result.rule_set_version, len(result.runs)) == ("level", "2", 7)
    assert (result.causes[0].runs, result.causes[0].of, result.causes[0].first_run) == (4, 4, "run_004")
    [note] = result.notes
    assert "3 runs diagnosed with another rule set" in note
    assert "run_001, run_002, run_003" in note
    assert "critiqor diagnose RUN" in note


def test_no_runs_at_all() -> None:
    result = trends_of(AGENT, [])
    assert (result.runs, result.causes, result.rule_set_version, result.notes) == ([], [], None, [])


@given(strategies.lists(strategies.integers(0, 100), min_size=MIN_FOR_DIRECTION))
def test_time_reversed_is_the_other_direction(trusts: list[int]) -> None:
    opposite = {"up": "down", "down": "up", "level": "level"}
    direction, first, second = direction_of(trusts)
    assert direction_of(trusts[::-1]) == (opposite[direction], second, first)
