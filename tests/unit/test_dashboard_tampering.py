"""Changed files in a runs folder cannot make the dashboard show or overwrite anything outside of the evidence."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from dashboards import Dashboard, event_ids, failing_tests
from support import Runs, recorded

from critiqor.run.store import Run
from critiqor.run.visibility import change_visibility


def index_of(runs: Runs, run_id: str) -> Path:
    """Return the index that the first visit built."""
    dashboard = Dashboard(runs)
    assert dashboard.user().get(f"/runs/{run_id}/evidence").status_code == 200
    return runs.paths.run_folder(run_id) / "events.sqlite"


def changed(file: Path, *statements: str) -> None:
    with closing(sqlite3.connect(file)) as base:
        for statement in statements:
            base.execute(statement)
        base.commit()


def test_a_part_of_an_event_cannot_be_made_an_event(runs: Runs) -> None:
    forged = {"event_type": "tool_call", "tool_name": "forged"}
    run_id = runs.start()
    runs.write(run_id, recorded(1, "tool_call", tool_name="exec", payload={"arguments": forged}))
    runs.finalize(run_id)
    file = index_of(runs, run_id)
    evidence = runs.evidence_bytes(run_id)
    inner = json.dumps(forged, separators=(",", ":")).encode()
    offset = evidence.index(inner)
    changed(file, f"UPDATE events SET offset = {offset}, length = {len(inner)}")
    answer = Dashboard(runs).user().get(f"/runs/{run_id}/evidence")
    assert answer.status_code == 422
    assert "forged" not in answer.text


@pytest.mark.parametrize(
    "place",
    ["offset = -5", "offset = 0", "length = 0", "length = -1", f"length = {1 << 40}", "offset = 'x'", "length = NULL"],
)
def test_impossible_positions_are_reported_as_broken(runs: Runs, place: str) -> None:
    run_id = failing_tests(runs)
    changed(index_of(runs, run_id), f"UPDATE events SET {place}")
    assert Dashboard(runs).user().get(f"/runs/{run_id}/evidence").status_code == 422


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE VIEW more AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n",
        "CREATE TRIGGER more AFTER INSERT ON events BEGIN DELETE FROM events; END",
        "DELETE FROM facts",
        "UPDATE facts SET value = 'other evidence'",
        "DROP TABLE facts",
    ],
)
def test_an_index_that_is_not_ours_is_rebuilt(runs: Runs, statement: str) -> None:
    run_id = failing_tests(runs)
    file = index_of(runs, run_id)
    before = file.stat().st_ino
    changed(file, statement)
    page = Dashboard(runs).user().get(f"/runs/{run_id}/evidence?all=1").text
    assert len(event_ids(page)) > 5
    assert file.stat().st_ino != before


@pytest.mark.parametrize("beside", ["events.sqlite-journal", "events.sqlite-wal"])
def test_journals_beside_an_index_are_not_replayed(runs: Runs, beside: str) -> None:
    run_id = failing_tests(runs)
    file = index_of(runs, run_id)
    file.with_name(beside).write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + b"\x00" * 1000)
    page = Dashboard(runs).user().get(f"/runs/{run_id}/evidence?all=1").text
    assert len(event_ids(page)) > 5


def test_an_index_that_is_overwritten_while_it_is_used_is_rebuilt(runs: Runs) -> None:
    run_id = failing_tests(runs)
    client = Dashboard(runs).user()
    client.get(f"/runs/{run_id}/evidence")
    (runs.paths.run_folder(run_id) / "events.sqlite").write_bytes(b"no database at all")
    answer = client.get(f"/runs/{run_id}/evidence?type=tool_call")
    assert answer.status_code == 200 and len(event_ids(answer.text)) == 1
    assert str(runs.folder) not in answer.text
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_an_index_that_is_damaged_is_rebuilt(runs: Runs) -> None:
    run_id = failing_tests(runs)
    file = index_of(runs, run_id)
    size = file.stat().st_size
    with file.open("r+b") as opened:
        opened.seek(8192)  # behind what tells whose index it is
        opened.write(b"\xff" * (size - 8192))
    client = Dashboard(runs).user()
    first = client.get(f"/runs/{run_id}/evidence?type=tool_call")
    assert first.status_code in (200, 422) and str(runs.folder) not in first.text
    again = client.get(f"/runs/{run_id}/evidence?type=tool_call")
    assert again.status_code == 200 and len(event_ids(again.text)) == 1


def test_remains_of_an_index_are_removed_when_it_is_rebuilt(runs: Runs) -> None:
    run_id = failing_tests(runs)
    folder = runs.paths.run_folder(run_id)
    left, going_on = folder / "events.sqlite.999999999.tmp", folder / f"events.sqlite.{os.getppid()}.tmp"
    left.write_bytes(b"half an index")
    going_on.write_bytes(b"that of another dashboard")
    index_of(runs, run_id)
    assert not left.exists() and going_on.exists()


def test_a_link_in_the_place_of_a_temporary_file_is_not_written_through(runs: Runs, tmp_path: Path) -> None:
    run_id = failing_tests(runs)
    precious = tmp_path / "precious"
    precious.write_text("mine")
    record = runs.paths.run_path(run_id)
    record.with_name(record.name + ".tmp").symlink_to(precious)
    change_visibility(Run.load(run_id, runs.folder), "shared")
    (runs.folder / ".links.json.tmp").symlink_to(precious)
    Dashboard(runs).guest(run_id)
    assert precious.read_text() == "mine"
    assert runs.record(run_id)["metadata"]["visibility"] == "shared"
