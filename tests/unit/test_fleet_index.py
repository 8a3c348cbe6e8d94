"""The index of the fleet in a SQLite file."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from fleet_entries import entry
from fleet_index_cases import *  # noqa: F403
from fleet_index_cases import Opener, dump

from critiqor.errors import BrokenRecordError, UsageError
from critiqor.fleet.errors import FleetUnavailableError
from critiqor.fleet.index.base import NewerIndexError
from critiqor.fleet.index.fleet_index import FleetIndex
from critiqor.fleet.index.opening import open_index

TESTS = Path(__file__).parents[1]


@pytest.fixture
def open_fleet(tmp_path: Path) -> Opener:
    def opened(tenant: str | None = None) -> FleetIndex:
        return open_index(f"sqlite://{tmp_path}/index.sqlite", tenant)

    return opened


def test_the_default_is_a_file_in_the_data_folder_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with open_index(None) as index:
        file = tmp_path / "data" / "critiqor" / "fleet.sqlite"
        assert index.address == str(file)
        assert file.stat().st_mode & 0o777 == 0o600


def test_only_the_runs_of_a_tenant_are_shown(open_fleet: Opener) -> None:
    with open_fleet() as index:
        index.add([entry(tenant_id="a"), entry(tenant_id="b")])
        assert index.count() == 2
        assert index.tenants("openclaw_agent") == ["a", "b"]
    with open_fleet(tenant="a") as index:
        assert [run.tenant for run in index.runs()] == ["a"]
        assert [hit.run.tenant for hit in index.search("deploy")] == ["a"]


def test_an_index_of_a_newer_version_is_not_touched(tmp_path: Path, open_fleet: Opener) -> None:
    open_fleet().close()
    with sqlite3.connect(tmp_path / "index.sqlite") as base:
        base.execute("INSERT INTO migrations VALUES (99, '')")
    with pytest.raises(NewerIndexError, match="version 99, and this one knows version 1") as caught:
        open_fleet()
    assert caught.value.fix == "update Critiqor on this machine"


def test_a_damaged_file_is_reported_with_the_command_that_rebuilds_it(tmp_path: Path, open_fleet: Opener) -> None:
    (tmp_path / "index.sqlite").write_bytes(b"no database" * 1000)
    with pytest.raises(BrokenRecordError) as caught:
        open_fleet()
    assert caught.value.fix == f"rm {tmp_path}/index.sqlite && critiqor fleet reindex"


def test_a_folder_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FleetUnavailableError, match="cannot be used"):
        open_index(f"sqlite://{tmp_path}/file/index.sqlite")


def test_other_addresses_are_refused() -> None:
    with pytest.raises(UsageError, match="postgresql://"):
        open_index("mysql://host/database")


def test_processes_that_start_and_write_at_once_lose_nothing(tmp_path: Path, open_fleet: Opener) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from fleet_entries import entry\n"
        "from critiqor.fleet.index.opening import open_index\n"
        "with open_index(sys.argv[2]) as index:\n"
        "    for number in range(20):\n"
        "        index.add([entry('shared', f'run_{number:03}'), entry(sys.argv[3], f'run_{number:03}')])\n"
    )
    url = f"sqlite://{tmp_path}/index.sqlite"
    writers = [subprocess.Popen([sys.executable, "-c", code, str(TESTS), url, f"host-{each}"]) for each in range(3)]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    with open_fleet() as index:
        assert index.count() == 80
        assert {len(rows) for table, rows in dump(index).items() if table in ("runs", "sealed_runs")} == {80}
        assert len(index.search("deploy", limit=1000)) == 80
