"""Search in the content of all runs: in the terminal and in the dashboard."""

from __future__ import annotations

import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from shlex import quote

import pytest
from conversations import misreporting_run
from dashboards import Dashboard, failing_tests
from hostile import MARKUP
from support import Cli, Runs

from critiqor.errors import BrokenRecordError
from critiqor.run.store import Run, RunStore
from critiqor.search import index as module
from critiqor.search.index import FILE_NAME, RunHits, SearchIndex


def found(runs: Runs, text: str) -> dict[str, int]:
    index = SearchIndex(RunStore(runs.folder))
    assert index.update() == 0
    return {hits.run_id: hits.matches for hits in index.find(text)}


def test_messages_commands_and_results_of_all_runs_are_found(runs: Runs) -> None:
    misreporting, failed = misreporting_run(runs), failing_tests(runs, "zebra stripes")
    assert found(runs, "overloaded") == {misreporting: 1}
    assert found(runs, "zebra") == {failed: 3}
    assert found(runs, "tests pass") == {misreporting: 1, failed: 1}
    assert found(runs, "list.txt") == {misreporting: 2}
    assert found(runs, "zeb") == {failed: 3}
    assert found(runs, "nothing of that name") == {}
    assert found(runs, "") == {}


def test_only_new_and_changed_runs_are_read_again(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    failing_tests(runs, "one")
    found(runs, "one")
    read: list[str] = []
    original = module._add_run

    def watched(base: sqlite3.Connection, run: Run, source: str) -> None:
        read.append(run.id)
        original(base, run, source)

    monkeypatch.setattr(module, "_add_run", watched)
    second = failing_tests(runs, "two")
    assert found(runs, "two") == {second: 3}
    assert read == [second]


def test_a_removed_run_is_not_found(runs: Runs) -> None:
    first, second = failing_tests(runs, "zebra"), failing_tests(runs, "zebra")
    assert set(found(runs, "zebra")) == {first, second}
    runs.paths.run_path(first).unlink()
    shutil.rmtree(runs.paths.run_folder(first))
    assert set(found(runs, "zebra")) == {second}


def test_the_index_is_built_again_if_it_is_lost_damaged_or_of_another_version(runs: Runs) -> None:
    run_id = failing_tests(runs, "zebra")
    file = runs.folder / FILE_NAME
    for damage in (lambda: file.unlink(), lambda: file.write_bytes(b"nonsense" * 999), lambda: file.write_bytes(b"")):
        assert found(runs, "zebra") == {run_id: 3}
        damage()
    assert found(runs, "zebra") == {run_id: 3}
    with sqlite3.connect(file) as base:
        base.execute("UPDATE facts SET value = '0'")
    assert found(runs, "zebra") == {run_id: 3}


def test_a_part_of_many_runs_is_indexed_at_a_time(runs: Runs) -> None:
    for _ in range(3):
        failing_tests(runs, "zebra")
    index = SearchIndex(RunStore(runs.folder))
    assert [index.update(1), index.update(1), index.update(1), index.update(1)] == [2, 1, 0, 0]
    assert len(index.find("zebra")) == 3


def test_evidence_that_changed_or_is_gone_does_not_break_the_search(runs: Runs) -> None:
    run_id = failing_tests(runs, "zebra")
    index = SearchIndex(RunStore(runs.folder))
    index.update()
    runs.paths.evidence_summary_path(run_id).write_bytes(b"{}")
    assert index.find("zebra") == [RunHits(run_id, 3, [])]
    index.update()
    assert index.find("zebra") == []


def test_an_index_that_cannot_be_written_is_reported(runs: Runs) -> None:
    failing_tests(runs)
    (runs.folder / FILE_NAME).mkdir()
    with pytest.raises(BrokenRecordError, match="cannot be written"):
        SearchIndex(RunStore(runs.folder)).update()


def test_the_command_that_removes_a_damaged_index_has_its_whole_path(cli: Cli, tmp_path: Path) -> None:
    runs = Runs(tmp_path / "my project" / "runs")
    failing_tests(runs)
    file = runs.folder / FILE_NAME
    file.mkdir()
    said = cli("search", "zebra", "--runs-dir", runs.folder)
    assert said.code != 0
    assert f"rm {quote(str(file))}" in " ".join(said.err.split())


def test_an_index_that_another_process_uses_is_healthy_and_stays(runs: Runs) -> None:
    run_id = failing_tests(runs, "zebra")
    assert found(runs, "zebra") == {run_id: 3}
    file = runs.folder / FILE_NAME
    before = file.stat().st_ino
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        page = Dashboard(runs).user().get("/search?q=zebra").text
        assert "nother process uses the index of the search" in page
        assert "earch again in a moment" in page
    assert file.stat().st_ino == before
    assert found(runs, "zebra") == {run_id: 3}


def test_the_terminal_names_run_event_and_text(cli: Cli, runs: Runs) -> None:
    run_id = failing_tests(runs, "zebra stripes")
    said = cli("search", "zebra", "stripes", "--runs-dir", runs.folder)
    assert said.code == 0
    assert f"{run_id}  3 matches" in said.out
    assert re.search(r"evt_\w+  agent:main:main", said.out)
    data = cli("search", "zebra", "--json", "--runs-dir", runs.folder).data
    assert (data[0]["run_id"], data[0]["matches"], len(data[0]["events"])) == (run_id, 3, 3)
    assert "zebra" in data[0]["events"][0]["text"]
    assert "No run contains these words." in cli("search", "giraffe", "--runs-dir", runs.folder).out


def test_the_dashboard_leads_from_a_match_to_its_place_in_the_conversation(runs: Runs) -> None:
    run_id = failing_tests(runs, "zebra stripes")
    user = Dashboard(runs).user()
    page = user.get("/search?q=zebra").text
    assert "1 run contains these words." in page
    [first, *_] = re.findall(r'href="(/runs/[^"]+\?event=[^"#]+)', page)
    assert first.startswith(f"/runs/{run_id}/sessions/")
    assert "zebra" in user.get(first).text
    assert "<mark>zebra</mark>" in page
    assert 'href="/search?q=zebra"' in user.get("/runs?q=zebra").text


def test_runs_of_other_tenants_are_not_found_and_strangers_are_refused(runs: Runs) -> None:
    failing_tests(runs, "zebra", tenant_id="somebody")
    dashboard = Dashboard(runs)
    assert "0 runs contain these words." in dashboard.user().get("/search?q=zebra").text
    assert dashboard.stranger().get("/search?q=zebra").status_code == 403


def test_hostile_matches_are_text(runs: Runs) -> None:
    for text in MARKUP.values():
        failing_tests(runs, text)
    page = Dashboard(runs).user().get("/search?q=zzmark").text
    assert not any(text in page for text in MARKUP.values() if "<" in text)
    asked = Dashboard(runs).user().get("/search", params={"q": MARKUP["attribute"]}).text
    assert MARKUP["attribute"] not in asked
