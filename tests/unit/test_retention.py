"""Rules that say how long runs are kept, and what they remove."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from support import Cli, Runs, attached, exit_code_of, fork, recorded, start_python

from critiqor.policy.retention import Candidate, Retention, parse_age, parse_retention, parse_size, removals
from critiqor.run.retention.journals import drop_journal
from critiqor.run.retention.pruning import prune
from critiqor.run.store import RunStore

DAY = 24 * 3_600_000
NOW = 1_000 * DAY


def run(name: str, *, days: float, size: int = 100, is_unsafe: bool = False) -> Candidate:
    return Candidate(name, round(NOW - days * DAY), size, is_unsafe)


def removed(candidates: list[Candidate], **rules: object) -> list[str]:
    return [each.run_id for each in removals(candidates, parse_retention(rules), NOW)]


def test_ages_and_sizes_are_read_with_their_units() -> None:
    assert [parse_age(text) for text in ("90m", "24h", "30d", "1w")] == [5_400_000, DAY, 30 * DAY, 7 * DAY]
    assert [parse_size(text) for text in ("500MB", "1.5 gb")] == [500_000_000, 1_500_000_000]


@pytest.mark.parametrize(
    "table", [{"max_age": "30"}, {"max_size": "5"}, {"max_runs": 0}, {"max_agee": "1d"}, {"max_age": 3}]
)
def test_a_wrong_rule_is_refused(table: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        parse_retention(table)


def test_a_wrong_rule_is_named() -> None:
    with pytest.raises(ValueError, match=r"^max_runs: expected int >= 1$"):
        parse_retention({"max_runs": 0})


def test_runs_beyond_the_age_are_removed_and_unsafe_ones_later() -> None:
    runs = [run("old", days=31), run("young", days=29), run("bad", days=31, is_unsafe=True), run("new", days=1)]
    assert removed(runs, max_age="30d") == ["old"]
    assert removed([*runs, run("ancient", days=121, is_unsafe=True)], max_age="30d") == ["old", "ancient"]
    assert removed(runs, max_age_unsafe="30d") == ["bad"]


def test_the_oldest_of_too_many_runs_are_removed_and_unsafe_ones_last() -> None:
    runs = [run("bad", days=9, is_unsafe=True), run("a", days=8), run("b", days=7), run("c", days=1)]
    assert removed(runs, max_runs=3) == ["a"]
    assert removed(runs, max_runs=2) == ["a", "b"]
    assert removed(runs, max_runs=1) == ["a", "b", "bad"]


def test_the_newest_run_is_kept_however_large_it_is() -> None:
    runs = [run("a", days=3, size=400), run("b", days=2, size=400), run("c", days=1, size=9_000_000)]
    assert removed(runs, max_size="1MB") == ["a", "b"]


def test_rules_leave_as_many_runs_as_they_allow() -> None:
    choice = random.Random(4)
    for _ in range(200):
        runs = [
            run(
                f"r{number}", days=choice.uniform(0, 90), size=choice.randint(1, 9_000), is_unsafe=choice.random() < 0.3
            )
            for number in range(choice.randint(0, 40))
        ]
        gone = set(removed(runs, max_runs=12, max_size="60KB"))
        left = [each for each in runs if each.run_id not in gone]
        assert len(left) <= 12
        assert sum(each.size for each in left) <= 60_000
        if any(each.is_unsafe for each in runs if each.run_id in gone):
            newest = max(runs, key=lambda each: each.ended_ms)
            assert all(each.is_unsafe or each is newest for each in left)


def seal(runs: Runs, count: int) -> list[str]:
    for number in range(count):
        runs.seal(attached(), recorded(2 + number))
    return runs.paths.run_ids()


def test_prune_removes_the_record_and_the_folder_and_no_number_is_used_again(cli: Cli, runs: Runs) -> None:
    ids = seal(runs, 3)
    answer = cli("prune", "--max-runs", "1", "--json")
    assert [each["run_id"] for each in answer.data["removed"]] == ids[:2]
    assert runs.paths.run_ids() == ids[2:]
    assert sorted(path.name for path in runs.paths.runs_dir.iterdir() if not path.name.startswith(".")) == [
        ids[2],
        f"{ids[2]}.json",
    ]
    assert runs.start() == "run_004"


def test_a_dry_run_names_what_would_be_removed_and_removes_nothing(cli: Cli, runs: Runs) -> None:
    ids = seal(runs, 3)
    said = cli("prune", "--max-runs", "2", "--dry-run")
    assert f"would remove {ids[0]}" in said.out
    assert runs.paths.run_ids() == ids
    assert f"removed {ids[0]}" in cli("prune", "--max-runs", "2").out


def test_a_run_that_is_recorded_or_not_finalized_is_never_removed(cli: Cli, runs: Runs) -> None:
    oldest, newest = seal(runs, 2)
    active = runs.start()
    answer = cli("prune", "--max-age", "0m")
    assert active in answer.out
    assert runs.paths.run_ids() == [newest, active]
    assert not runs.paths.run_folder(oldest).exists()


def test_a_run_whose_evidence_was_changed_is_kept_like_an_unsafe_one(cli: Cli, runs: Runs) -> None:
    ids = seal(runs, 3)
    evidence = runs.paths.evidence_summary_path(ids[0])
    evidence.chmod(0o600)
    evidence.write_bytes(evidence.read_bytes().replace(b'"ok"', b'"OK"', 1))
    cli("prune", "--max-runs", "2")
    assert runs.paths.run_ids() == [ids[0], ids[2]]


def test_a_removal_that_was_killed_is_completed(cli: Cli, runs: Runs) -> None:
    ids = seal(runs, 2)
    folder = runs.paths.run_folder(ids[0])
    folder.rename(folder.with_name(f".removed-{ids[0]}"))
    assert cli("prune", "--max-runs", "5").code == 0
    assert runs.paths.run_ids() == ids[1:]
    assert not folder.with_name(f".removed-{ids[0]}").exists()


def test_two_that_prune_at_once_remove_each_run_once(runs: Runs) -> None:
    assert exit_code_of(fork(lambda: seal(runs, 12))) == 0  # they belong to a process that has ended
    code = """
import sys
from critiqor.policy.retention import Retention
from critiqor.run.retention.pruning import prune
from critiqor.run.store import RunStore
for one in prune(RunStore(sys.argv[1]), Retention(max_runs=2)).removed:
    print(one.run_id)
"""
    started = [start_python(code, runs.paths.runs_dir) for _ in range(2)]
    names = [name for process in started for name in process.communicate()[0].split()]
    assert [process.returncode for process in started] == [0, 0]
    assert sorted(names) == sorted(set(names))
    assert len(names) == 10
    assert len(runs.paths.run_ids()) == 2


def test_prune_without_a_rule_names_the_command_to_type(cli: Cli, runs: Runs) -> None:
    seal(runs, 1)
    answer = cli("prune")
    assert answer.code == 2
    assert "--max-age 30d --dry-run" in answer.err


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The settings of the user, which need not exist."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    path = tmp_path / "config" / "critiqor" / "config.toml"
    path.parent.mkdir(parents=True)
    return path


def test_the_rules_of_the_user_apply_after_each_seal(cli: Cli, runs: Runs, settings: Path) -> None:
    settings.write_text("[retention]\nmax_runs = 2\n")
    seal(runs, 3)
    runs.start()
    runs.write("run_004", attached(), recorded(2))
    answer = cli("finalize", "--no-dashboard")
    assert "2 older runs removed" in answer.err
    assert runs.paths.run_ids() == ["run_003", "run_004"]


def test_a_run_that_was_just_finalized_is_never_removed(cli: Cli, runs: Runs, settings: Path) -> None:
    settings.write_text('[retention]\nmax_age = "0m"\n')
    run_id = runs.start()
    runs.write(run_id, attached(), recorded(2))
    seal(runs, 0)
    assert cli("finalize", "--no-dashboard").code == 0
    assert cli("show", run_id).code == 0


def test_the_file_of_a_folder_cannot_have_runs_removed(cli: Cli, runs: Runs, tmp_path: Path) -> None:
    ids = seal(runs, 3)
    (tmp_path / "critiqor.toml").write_text("[retention]\nmax_runs = 1\n")
    answer = cli("prune")
    assert answer.code == 2
    assert "may contain keep_journal only" in answer.err
    assert runs.paths.run_ids() == ids


def test_the_index_of_the_search_is_removed_with_the_runs_whose_words_it_has(cli: Cli, runs: Runs) -> None:
    seal(runs, 2)
    assert cli("search", "anything").code == 0
    assert runs.paths.search_index_path.exists()
    cli("prune", "--max-runs", "1")
    assert not runs.paths.search_index_path.exists()
    assert cli("search", "anything").code == 0


def test_a_mistake_in_the_table_is_reported_with_its_file(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "critiqor.toml").write_text('[retention]\nmax_age = "soon"\n')
    answer = cli("runs")
    assert answer.code == 2
    assert "retention in critiqor.toml: 'soon' is not an age" in answer.err


def test_finalize_drops_the_journal_that_its_evidence_contains(cli: Cli, runs: Runs) -> None:
    run_id = runs.start()
    runs.write(run_id, attached(), recorded(2))
    assert cli("finalize", "--no-dashboard").code == 0
    assert not runs.paths.journal_path(run_id).exists()
    assert cli("verify", run_id).code == 0
    assert cli("diagnose", run_id).code == 0
    assert cli("show", run_id).code == 0


def test_a_journal_is_kept_if_the_user_wants_it(cli: Cli, runs: Runs, tmp_path: Path) -> None:
    (tmp_path / "critiqor.toml").write_text("[retention]\nkeep_journal = true\n")
    run_id = runs.start()
    runs.write(run_id, attached(), recorded(2))
    cli("finalize", "--no-dashboard")
    assert runs.paths.journal_path(run_id).exists()


@pytest.mark.parametrize("damage", [b'{"event_id": "evt_\n', b"\xff\xfe\n"])
def test_a_journal_with_damaged_records_is_kept(cli: Cli, runs: Runs, damage: bytes) -> None:
    run_id = runs.start()
    runs.write(run_id, attached(), damage, recorded(2))
    cli("finalize", "--no-dashboard")
    assert runs.paths.journal_path(run_id).exists()


def test_a_journal_is_kept_if_records_followed_or_the_evidence_was_changed(runs: Runs) -> None:
    first, second = seal(runs, 2)
    with runs.paths.journal_path(first).open("ab") as file:
        file.write(b"{}\n")
    evidence = runs.paths.evidence_summary_path(second)
    evidence.chmod(0o600)
    evidence.write_bytes(evidence.read_bytes() + b" ")
    store = RunStore(runs.paths.runs_dir)
    assert [drop_journal(store.run(name)) for name in (first, second)] == [False, False]
    assert runs.paths.journal_path(first).exists()
    assert runs.paths.journal_path(second).exists()


def test_pruning_a_folder_that_does_not_exist_removes_nothing(tmp_path: Path) -> None:
    pruned = prune(RunStore(tmp_path / "none"), Retention(max_runs=1))
    assert (pruned.removed, pruned.kept) == ([], 0)
