"""`critiqor runs`: which runs are listed, and in which order."""

from __future__ import annotations

import pytest
from support import Cli, Runs, attached, recorded

from critiqor.cli.run_list import ListedRun, RunFilter, RunRow, sort_rows

DAY = "2026-11-0{}T12:00:00.000Z"


def row(name: str, **known: object) -> RunRow:
    sessions, tags = known.pop("session_keys", ()), known.pop("tags", ())
    listed = ListedRun(run_id=name, status="COMPLETED", **known)  # type: ignore[arg-type]
    return RunRow(listed, "-", sessions, tags)  # type: ignore[arg-type]


ROWS = [
    row("c", agent_id="release-eu", verdict="ready", trust=100, created_at=DAY.format(3), cost_usd=0.5, events=9),
    row("b", agent_id="chat", verdict="unsafe", trust=20, created_at=DAY.format(2), cost_usd=2.0, tags=("incident",)),
    row("a", agent_id="release-us", verdict="review", created_at=DAY.format(1), session_keys=("agent:main:telegram",)),
]


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, "cba"),
        ({"agent": "release-*"}, "ca"),
        ({"agent": "release"}, ""),
        ({"session": "telegram"}, "a"),
        ({"verdicts": ("unsafe", "review")}, "ba"),
        ({"since_ms": 1_793_620_800_000}, "cb"),
        ({"tags": ("incident",)}, "b"),
        ({"tags": ("incident", "other")}, ""),
    ],
)
def test_options_choose_the_runs_that_are_listed(options: dict[str, object], names: str) -> None:
    chosen = RunFilter(**options)  # type: ignore[arg-type]
    assert "".join(each.run.run_id for each in ROWS if chosen.shows(each)) == names


def test_runs_are_sorted_with_the_worst_or_the_largest_first() -> None:
    def order(key: str) -> str:
        return "".join(each.run.run_id for each in sort_rows(ROWS, key))  # type: ignore[arg-type]

    assert (order("created"), order("trust"), order("cost"), order("events")) == ("cba", "bca", "bca", "cba")


def test_the_verb_lists_what_matches_and_says_if_nothing_does(cli: Cli, runs: Runs) -> None:
    runs.start(agent_id="one")
    runs.write("run_001", attached(), recorded(2))
    runs.finalize("run_001")
    assert [each["run_id"] for each in cli("runs", "--agent", "o*", "--since", "1d", "--json").data] == ["run_001"]
    assert cli("runs", "--agent", "two", "--json").data == []
    assert "No run of 1 matches" in cli("runs", "--since", "2999-01-01").out
    wrong = cli("runs", "--since", "soon")
    assert wrong.code == 2
    assert "critiqor runs --since 7d" in wrong.err
