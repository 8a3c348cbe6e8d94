"""`critiqor runs`: which runs are listed, and in which order."""

from __future__ import annotations

import shutil

import pytest
from support import Cli, Runs, attached, recorded

from critiqor.cli import run_list
from critiqor.cli.run_list import ListedRun, RunFilter, RunRow, list_runs, sort_rows
from critiqor.run.store import Run, RunStore
from critiqor.storage.annotations import Annotations, change_annotations

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


@pytest.fixture
def listed(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> RunStore:
    """A folder with two finished runs that were listed before."""
    monkeypatch.setattr(run_list, "_SETTLED_NS", 0)  # the files are only just written
    for run_id in ("run_001", "run_002"):
        runs.start(agent_id="one")
        runs.write(run_id, attached(), recorded(2))
        runs.finalize(run_id)
    store = RunStore(runs.folder)
    list_runs(store)
    return store


def read_again(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """List the runs. Return the ids of those that were read."""
    read: list[str] = []

    def noted(run: Run) -> RunRow:
        read.append(run.id)
        return list_run(run)

    list_run = run_list.list_run
    with monkeypatch.context() as patch:
        patch.setattr(run_list, "list_run", noted)
        list_runs(store)
    return read


def test_finished_runs_are_not_read_again_while_their_files_are_the_same(
    listed: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = list_runs(listed)
    assert read_again(listed, monkeypatch) == []
    listed.paths.run_list_path.unlink()
    assert read_again(listed, monkeypatch) == ["run_002", "run_001"]
    assert list_runs(listed) == before


def test_evidence_that_was_changed_since_the_last_list_is_noticed(
    listed: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    evidence = listed.run("run_001").evidence_path
    evidence.chmod(0o600)
    evidence.write_bytes(evidence.read_bytes().replace(b"ok", b"no", 1))
    assert read_again(listed, monkeypatch) == ["run_001"]
    assert [row.run.verdict for row in list_runs(listed)] == ["review", "unknown"]


def test_tags_and_runs_that_were_removed_are_not_shown_from_before(listed: RunStore, cli: Cli) -> None:
    change_annotations(listed.paths, "run_002", lambda _: Annotations(tags=["incident"]))
    assert [each["run_id"] for each in cli("runs", "--tag", "incident", "--json").data] == ["run_002"]
    listed.run("run_001").record_path.unlink()
    shutil.rmtree(listed.run("run_001").folder)
    assert [row.run.run_id for row in list_runs(listed)] == ["run_002"]
    assert b"run_001" not in listed.paths.run_list_path.read_bytes()


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b'{"version":0,"rows":{}}', b'{"version":1,"rows":{"run_001":[[],{}]}}', b"\xff"],
)
def test_a_list_does_not_depend_on_what_was_kept_of_the_last_one(listed: RunStore, content: bytes) -> None:
    before = list_runs(listed)
    listed.paths.run_list_path.write_bytes(content)
    assert list_runs(listed) == before


def test_runs_that_changed_just_now_and_runs_in_progress_are_read_every_time(
    runs: Runs, listed: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs.start(agent_id="two")
    assert read_again(listed, monkeypatch) == read_again(listed, monkeypatch) == ["run_003"]
    monkeypatch.setattr(run_list, "_SETTLED_NS", 10**12)
    list_runs(listed)
    assert read_again(listed, monkeypatch) == ["run_003", "run_002", "run_001"]
