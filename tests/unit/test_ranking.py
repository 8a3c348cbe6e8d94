from __future__ import annotations

from typing import Any

import pytest
from diagnosed import case, diagnosis, finding
from hypothesis import given, strategies
from support import Fields

from critiqor.comparison.ranking import MIN_OTHERS, Placement, Ranking, percent_worse, rank_run
from critiqor.model import Metadata
from critiqor.model.report import RunSummary

numbers = strategies.integers(0, 100)


def others(number: int, **figures: Any) -> list[RunSummary]:
    return [case(diagnosis(f"run_{index:03d}", **figures)) for index in range(2, number + 2)]


def place(ranking: Ranking, figure: str) -> Placement:
    return next(placement for placement in ranking.placements if placement.figure == figure)


def test_place_among_others() -> None:
    worse = others(3, trust=50, cost_usd=1.0, wall_ms=9000, input_tokens=999)
    better = [
        case(diagnosis(f"run_1{index:02d}", trust=100, cost_usd=0.1, wall_ms=10, input_tokens=1, output_tokens=1))
        for index in range(2)
    ]
    ranking = rank_run("run_001", [case(diagnosis("run_001", finding(), trust=80, cost_usd=0.5)), *worse, *better])
    assert ranking.others == 5
    assert place(ranking, "trust").better_than_percent == 60
    assert place(ranking, "trust").statement == "better than 60% of 5 other runs"
    assert place(ranking, "cost_usd").better_than_percent == 60
    assert place(ranking, "wall_ms").better_than_percent == 60
    assert place(ranking, "tokens").better_than_percent == 60
    assert place(ranking, "findings").better_than_percent == 0
    assert [placement.figure for placement in ranking.placements] == [
        "trust",
        "cost_usd",
        "tokens",
        "wall_ms",
        "findings",
    ]


def test_ties_count_half() -> None:
    ranking = rank_run("run_001", [case(diagnosis("run_001")), *others(6)])
    assert {placement.better_than_percent for placement in ranking.placements} == {50, None}
    assert place(ranking, "cost_usd").statement.startswith("unknown for this run")


def test_too_few_others_say_nothing() -> None:
    few = rank_run("run_001", [case(diagnosis("run_001")), *others(MIN_OTHERS - 1)])
    assert place(few, "trust").better_than_percent is None
    assert place(few, "trust").statement == "too few runs: 4 other runs, at least 5 needed"
    alone = rank_run("run_001", [case(diagnosis("run_001"))])
    assert alone.others == 0
    assert all(placement.better_than_percent is None for placement in alone.placements)


def test_unknown_values_are_left_out_and_counted() -> None:
    cases = [case(diagnosis("run_001", cost_usd=0.5)), *others(5, cost_usd=0.6), case(diagnosis("run_100"))]
    cost = place(rank_run("run_001", cases), "cost_usd")
    assert (cost.better_than_percent, cost.others, cost.unknown) == (100, 5, 1)
    assert cost.statement == "better than 100% of 5 other runs (1 other left out: value unknown)"


def test_run_that_was_not_observed_is_not_the_one_without_findings() -> None:
    cases = [case(diagnosis("run_001", finding())), *others(5, trust=None)]
    found = place(rank_run("run_001", cases), "findings")
    assert (found.value, found.others, found.unknown) == (1, 0, 5)


def test_only_runs_of_the_same_benchmark_and_difficulty_are_alike() -> None:
    kind: Fields = {"benchmark_id": "b", "difficulty_tier": "hard"}
    cases = [
        case(diagnosis("run_001"), **kind),
        case(diagnosis("run_002"), **kind),
        case(diagnosis("run_003"), benchmark_id="b"),
        case(diagnosis("run_004"), difficulty_tier="hard"),
        case(diagnosis("run_005"), agent_id="another", **kind),
    ]
    ranking = rank_run("run_001", cases)
    assert (ranking.benchmark_id, ranking.difficulty_tier, ranking.others) == ("b", "hard", 2)


def test_what_is_not_comparable_is_counted_and_named() -> None:
    old = [case(diagnosis(f"run_{index}", rules="0")) for index in range(100, 107)]
    open_run = RunSummary(run_id="run_200", metadata=Metadata(), undiagnosed="not yet")
    elsewhere = RunSummary(run_id="run_201", metadata=Metadata(benchmark_id="x"), undiagnosed="not yet")
    broken = RunSummary(run_id="run_300", undiagnosed="broken")
    ranking = rank_run("run_001", [case(diagnosis("run_001")), *old, open_run, elsewhere, broken])
    assert ranking.others == 0
    assert len(ranking.judged_by_other_rules) == 7
    assert ranking.undiagnosed == ["run_200"]
    assert ranking.unreadable == ["run_300"]
    rules, undiagnosed, unreadable = ranking.notes
    assert "7 runs diagnosed with another rule set" in rules
    assert "run_104 and 2 more; run critiqor diagnose RUN" in rules
    assert "run_200" in undiagnosed
    assert "run_300" in unreadable


@pytest.mark.parametrize("cases", [[], [RunSummary(run_id="run_001", metadata=Metadata(), undiagnosed="not yet")]])
def test_run_without_diagnosis_has_no_place(cases: list[RunSummary]) -> None:
    with pytest.raises(ValueError, match="run_001 is not diagnosed"):
        rank_run("run_001", cases)


@given(numbers, strategies.lists(numbers, min_size=1))
def test_share_is_a_share_and_what_is_better_upwards_is_worse_downwards(value: int, among: list[int]) -> None:
    up = percent_worse(value, among, more_is_better=True)
    down = percent_worse(value, among, more_is_better=False)
    assert 0 <= up <= 100
    assert up + down == pytest.approx(100, abs=0.11)


@given(numbers, numbers, strategies.lists(numbers, min_size=1))
def test_a_better_run_never_stands_lower(one: int, other: int, among: list[int]) -> None:
    low, high = sorted((one, other))
    assert percent_worse(low, among, more_is_better=True) <= percent_worse(high, among, more_is_better=True)
