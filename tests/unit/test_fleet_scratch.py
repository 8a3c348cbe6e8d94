"""Folders in which runs are unpacked for a while."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from object_stores import seal_small_run
from support import Runs

from critiqor.fleet.scratch import scratch_folder
from critiqor.fleet.settings import FleetSettings
from critiqor.fleet.store.object_store import open_store
from critiqor.fleet.store.stored_bundle import unpack_bundle
from critiqor.fleet.store.storing import store_run
from critiqor.fleet.store.verification import verify_store


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def start_user(prefix: str, base: Path | None = None) -> tuple[subprocess.Popen[str], Path]:
    """Start a process that unpacks something, and wait until it has."""
    code = (
        "import sys, time; from pathlib import Path; from critiqor.fleet.scratch import scratch_folder\n"
        "base = Path(sys.argv[2]) if len(sys.argv) > 2 else None\n"
        "with scratch_folder(sys.argv[1], base) as folder:\n"
        "    (folder / 'session.json').touch(); print(folder, flush=True); time.sleep(600)\n"
    )
    arguments = [prefix, *([str(base)] if base else [])]
    user = subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True)
    assert user.stdout is not None
    return user, Path(user.stdout.readline().strip())


def test_what_a_killed_process_has_unpacked_is_removed_by_the_next_one_and_what_others_use_is_not(
    tmp_path: Path, runs: Runs
) -> None:
    store = open_store(f"file://{tmp_path}/store")
    manifest = store_run(seal_small_run(runs), store, FleetSettings(host="build-7")).manifest
    other = tmp_path / "other"
    users = [start_user("verify-"), start_user("verify-"), start_user(".pull-", other), start_user(".pull-", other)]
    try:
        for user, folder in users[::2]:
            assert (folder / "session.json").exists()
            user.kill()
            user.wait()
            assert (folder / "session.json").exists()
        assert [each.intact for each in verify_store(store, [manifest])] == [True]
        unpack_bundle(store, manifest, other)
        assert [folder.exists() for _, folder in users] == [False, True, False, True]
    finally:
        for user, _ in users:
            user.kill()
            user.wait()
    assert [path.name for path in (tmp_path / "cache" / "critiqor").glob("verify-*")] == [users[1][1].name]


def test_a_folder_of_the_user_is_private_and_removed_at_the_end(tmp_path: Path) -> None:
    with scratch_folder("verify-") as folder:
        assert folder.parent == tmp_path / "cache" / "critiqor"
        assert folder.stat().st_mode & 0o777 == 0o700
    assert not folder.exists()
