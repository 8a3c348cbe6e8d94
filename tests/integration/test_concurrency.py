"""Several processes at once, and processes that are killed: the files on disk are correct in any case."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import Runs, attached, exit_code_of, fork, from_recorder, recorded, wait_until

from critiqor.errors import ActiveSessionError
from critiqor.session import (
    append_event_to_run,
    create_session,
    diagnose_run,
    finalize_session,
    load_active_session,
    refresh_live_evidence,
    request_finalize,
    write_json,
)
from critiqor.storage.seals.verification import verify_run


def at_once(count: int, work: Callable[[int], object]) -> list[int]:
    """Do `work` in several processes that start together; returns their exit codes."""
    ready, go = os.pipe()

    def wait_and_work(number: int) -> None:
        os.close(go)
        os.read(ready, 1)
        work(number)

    children = [fork(lambda number=number: wait_and_work(number)) for number in range(count)]  # type: ignore[misc]
    os.close(go)
    codes = [exit_code_of(child) for child in children]
    os.close(ready)
    return codes


def test_one_of_eight_concurrent_starts_gets_the_slot(runs: Runs, tmp_path: Path) -> None:
    def start(number: int) -> None:
        try:
            outcome = create_session(runs_dir=runs.folder)["run_id"]
        except ActiveSessionError:
            outcome = "refused"
        (tmp_path / f"{number}.outcome").write_text(outcome)

    assert at_once(8, start) == [0] * 8
    outcomes = Counter(path.read_text() for path in tmp_path.glob("*.outcome"))
    assert outcomes == {"run_001": 1, "refused": 7}
    assert runs.paths.run_ids() == ["run_001"]


def test_concurrent_starts_with_finalizes_between_get_distinct_ids(runs: Runs) -> None:
    def start_and_finalize(_: int) -> None:
        while True:
            with contextlib.suppress(ActiveSessionError):
                run_id = create_session(runs_dir=runs.folder)["run_id"]
                break
            time.sleep(0.002)
        finalize_session(run_id, runs_dir=runs.folder)

    assert at_once(8, start_and_finalize) == [0] * 8
    assert runs.paths.run_ids() == [f"run_{number:03d}" for number in range(1, 9)]
    assert {runs.status(run_id) for run_id in runs.paths.run_ids()} == {"COMPLETED"}
    assert load_active_session(runs.folder) is None


def test_reader_never_sees_half_of_a_file_that_several_write(tmp_path: Path) -> None:
    path = tmp_path / "document.json"
    documents = [{"writer": number, "filling": ["x" * 50] * 400 * (number + 1)} for number in range(3)]
    write_json(path, documents[0])

    def write(number: int) -> None:
        for _ in range(40):
            write_json(path, documents[number])

    writers = [fork(lambda number=number: write(number)) for number in range(3)]  # type: ignore[misc]
    seen = 0
    while any(os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None for pid in writers):
        assert json.loads(path.read_bytes()) in documents
        seen += 1
    assert [exit_code_of(pid) for pid in writers] == [0, 0, 0]
    assert seen > 0
    assert [entry.name for entry in tmp_path.iterdir()] == ["document.json"]


def test_lifecycle_events_of_several_processes_are_all_kept(runs: Runs) -> None:
    run_id = runs.start()

    def append(number: int) -> None:
        for count in range(5):
            event = {"event_type": "process_start", "payload": {"number": number, "count": count}}
            append_event_to_run(run_id, event, runs_dir=runs.folder)

    assert at_once(4, append) == [0] * 4
    notes = runs.notes(run_id, "process_start")
    assert len(notes) == 20
    assert len({note["event_id"] for note in notes}) == 20


def test_finalizes_from_several_shells_at_once_seal_once(runs: Runs) -> None:
    run_id = runs.start()
    runs.write(run_id, attached(), *[recorded(number) for number in range(2, 2000)])
    assert at_once(4, lambda _: finalize_session(run_id, runs_dir=runs.folder)) == [0] * 4
    assert runs.lifecycle(run_id) == ["IDLE", "MONITORING", "FINALIZING", "COMPLETED"]
    assert verify_run(runs.paths, run_id).intact


def test_several_shells_diagnose_an_aborted_run_at_once(runs: Runs) -> None:
    from critiqor.session import abort_session

    run_id = runs.start()
    runs.write(run_id, attached(), recorded(2, payload={"password": "hunter22"}))
    abort_session(runs_dir=runs.folder)
    assert at_once(4, lambda _: diagnose_run(run_id, runs_dir=runs.folder)) == [0] * 4
    assert verify_run(runs.paths, run_id).intact


def test_live_view_never_replaces_sealed_evidence(runs: Runs) -> None:
    run_id = runs.start()
    runs.write(run_id, attached(), *[recorded(number) for number in range(2, 300)])

    def refresh() -> None:
        for _ in range(200):
            refresh_live_evidence(run_id, runs_dir=runs.folder)

    monitors = [fork(refresh) for _ in range(2)]
    runs.finalize()
    assert [exit_code_of(pid) for pid in monitors] == [0, 0]
    assert verify_run(runs.paths, run_id).intact


@pytest.fixture
def cut_run(runs: Runs) -> Runs:
    """A runs folder whose run_001 is FINALIZING: where its evidence ends is decided, nothing is sealed."""
    run_id = runs.start()
    runs.write(run_id, attached(), b"garbage\n", *[recorded(n, payload={"token": f"hunter{n}"}) for n in range(2, 50)])
    request_finalize(run_id, runs_dir=runs.folder)
    return runs


def copies(runs: Runs, folder: Path) -> Callable[[object], Runs]:
    def copy(name: object) -> Runs:
        return Runs(shutil.copytree(runs.folder, folder / f"copy {name}"))

    return copy


def die_at(step: int, folder: Path) -> None:
    """Kill this process at its nth use of a file below the folder."""
    left = step

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        if event in ("open", "os.rename", "os.remove", "fcntl.flock", "os.chmod") and (
            event == "fcntl.flock" or str(folder) in str(arguments[0])
        ):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)


def test_finalize_killed_at_any_step_gives_the_same_bytes_when_repeated(cut_run: Runs, tmp_path: Path) -> None:
    copy = copies(cut_run, tmp_path)
    reference = copy("reference")
    reference.finalize()
    expected = reference.evidence_bytes("run_001")
    step, code = 0, -signal.SIGKILL
    while code == -signal.SIGKILL:
        step += 1
        runs = copy(step)

        def finalize_and_die(runs: Runs = runs, step: int = step) -> None:
            die_at(step, runs.folder)
            runs.finalize()

        code = exit_code_of(fork(finalize_and_die))
        # A process that was killed between taking the lock and writing into it looks like a recorder for five seconds.
        lock = runs.paths.session_lock_path("run_001")
        if lock.exists() and not lock.read_bytes():
            os.utime(lock, (0, 0))
        assert runs.finalize("run_001")["status"] == "COMPLETED"
        assert runs.evidence_bytes("run_001") == expected
        assert verify_run(runs.paths, "run_001").intact
        assert load_active_session(runs.folder) is None
        assert not runs.paths.active_path.exists()
        assert not runs.paths.redaction_key_path("run_001").exists()
        assert not list(runs.folder.rglob("*.tmp"))
    assert code == 0
    assert step > 10


@pytest.mark.parametrize("delay", [0.0, 0.01, 0.03, 0.06, 0.1])
def test_finalize_killed_at_any_time_keeps_everything(runs: Runs, delay: float) -> None:
    run_id = runs.start()
    runs.write(run_id, attached(), *[recorded(number, payload={"text": "x" * 200}) for number in range(2, 3000)])
    child = fork(runs.finalize)
    wait_until(lambda: runs.status(run_id) != "MONITORING")
    time.sleep(delay)
    os.kill(child, signal.SIGKILL)
    exit_code_of(child)
    assert runs.status(run_id) in ("FINALIZING", "COMPLETED")
    assert runs.finalize(run_id)["status"] == "COMPLETED"
    assert len(from_recorder(runs.evidence(run_id))) == 2999
    assert verify_run(runs.paths, run_id).intact


def test_create_killed_at_any_step_blocks_nobody(tmp_path: Path) -> None:
    step, code = 0, -signal.SIGKILL
    while code == -signal.SIGKILL:
        step += 1
        runs = Runs(tmp_path / str(step))

        def create_and_die(runs: Runs = runs, step: int = step) -> None:
            die_at(step, runs.folder)
            runs.start()

        code = exit_code_of(fork(create_and_die))
        if load_active_session(runs.folder) is not None:
            runs.finalize()
        assert runs.start() in ("run_001", "run_002")
        assert runs.finalize()["status"] == "COMPLETED"
    assert code == 0


def test_full_disk_leaves_finalizing_and_no_litter(runs: Runs) -> None:
    run_id = runs.start()
    runs.write(run_id, attached(), *[recorded(number) for number in range(2, 100)])
    request_finalize(run_id, runs_dir=runs.folder)

    def finalize_with_little_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, resource.RLIM_INFINITY))
        with contextlib.suppress(OSError):
            runs.finalize()
            return
        os._exit(7)

    assert exit_code_of(fork(finalize_with_little_room)) == 7
    assert runs.status(run_id) == "FINALIZING"
    assert not list(runs.folder.rglob("*.tmp"))
    assert runs.evidence(run_id)["events"] == []
    assert runs.finalize()["status"] == "COMPLETED"
    assert len(from_recorder(runs.evidence(run_id))) == 99
