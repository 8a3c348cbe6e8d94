"""The write lock of a session, between writers of one process and between real processes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from agentloop import Rig, instantly

from critiqor.agentloop.sessions.write_lock import LostLockError, NestedLockError, SessionBusyError, acquire, lock_path

HOLDER = """
import asyncio, sys
from pathlib import Path
from critiqor.agentloop.sessions.write_lock import acquire

async def main():
    lock = await acquire(Path(sys.argv[1]), sys.argv[2])
    print("held", flush=True)
    sys.stdin.readline()
    lock.release()

asyncio.run(main())
"""

RACER = """
import asyncio, sys
from pathlib import Path
from critiqor.agentloop.sessions.write_lock import acquire

async def main():
    counter = Path(sys.argv[2])
    for _ in range(int(sys.argv[3])):
        lock = await acquire(Path(sys.argv[1]), "racer")
        number = int(counter.read_text() or 0)
        await asyncio.sleep(0)
        counter.write_text(str(number + 1))
        lock.release()

asyncio.run(main())
"""


def hold_elsewhere(transcript: Path, holder: str = "other-run") -> subprocess.Popen[str]:
    """Start a process that holds the lock until it reads a line."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(transcript), holder],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_acquire_waits_for_a_writer_of_another_process_and_names_it_after_a_timeout(tmp_path: Path) -> None:
    transcript = tmp_path / "s.jsonl"
    other = hold_elsewhere(transcript)
    try:
        with pytest.raises(SessionBusyError) as busy:
            asyncio.run(acquire(transcript, "mine", timeout=0.02))
        assert str(other.pid) in busy.value.message
        assert "other-run" in busy.value.message
    finally:
        other.communicate("\n")


def test_a_run_waits_a_minute_for_another_writer_unless_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        clock = asyncio.get_running_loop().time
        monkeypatch.setattr(
            "critiqor.agentloop.sessions.write_lock.time", SimpleNamespace(monotonic=clock, time=time.time)
        )
        rig = Rig(tmp_path)
        first = await rig.ask()
        session = rig.runtime.services.sessions.find("main", first.session_key)
        assert session is not None
        lock = await acquire(session.transcript, "somebody else")
        began = clock()
        assert "another writer holds the session" in str((await rig.ask("again")).error)
        assert 60 <= clock() - began < 61
        lock.release()

    instantly(scenario())


def test_a_lock_is_acquired_as_soon_as_another_process_releases_it(tmp_path: Path) -> None:
    transcript = tmp_path / "s.jsonl"
    other = hold_elsewhere(transcript)

    async def scenario() -> None:
        waiting = asyncio.create_task(acquire(transcript, "mine"))
        await asyncio.sleep(0.02)
        assert not waiting.done()
        assert other.stdin is not None
        other.stdin.write("\n")
        other.stdin.flush()
        lock = await waiting
        assert lock.is_held
        lock.release()

    asyncio.run(scenario())
    other.wait()
    assert not lock_path(transcript).exists()


def test_the_lock_of_a_killed_process_is_recovered_even_if_it_is_a_zombie(tmp_path: Path) -> None:
    transcript = tmp_path / "s.jsonl"
    other = hold_elsewhere(transcript)
    other.send_signal(signal.SIGKILL)
    while os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        time.sleep(0.001)
    assert lock_path(transcript).exists()
    lock = asyncio.run(acquire(transcript, "mine", timeout=0.0))
    assert lock.is_held
    lock.release()
    other.communicate()


def test_another_process_with_the_process_id_of_a_dead_owner_does_not_keep_its_lock(tmp_path: Path) -> None:
    transcript = tmp_path / "s.jsonl"
    stranger = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    owner = {"pid": stranger.pid, "startedAt": 12345.0, "token": "t", "holder": "dead-run", "createdAt": 1}
    lock_path(transcript).write_text(json.dumps(owner))
    try:
        lock = asyncio.run(acquire(transcript, "mine", timeout=0.0))
        lock.release()
    finally:
        stranger.communicate(b"\n")


def test_a_lock_file_without_an_owner_is_respected_while_it_is_young_and_taken_when_it_is_old(tmp_path: Path) -> None:
    transcript = tmp_path / "s.jsonl"
    path = lock_path(transcript)
    path.write_bytes(b"")
    with pytest.raises(SessionBusyError):
        asyncio.run(acquire(transcript, "mine", timeout=0.0))
    os.utime(path, (time.time() - 60, time.time() - 60))
    asyncio.run(acquire(transcript, "mine", timeout=0.0)).release()


def test_processes_that_race_for_a_lock_lose_no_count(tmp_path: Path) -> None:
    transcript, counter = tmp_path / "s.jsonl", tmp_path / "counter"
    counter.write_text("0")
    # One dead owner to begin with, so that they race for its recovery as well.
    lock_path(transcript).write_text(
        json.dumps({"pid": 2**22 + 1, "startedAt": 1.0, "token": "t", "holder": "dead", "createdAt": 1})
    )
    racers = [subprocess.Popen([sys.executable, "-c", RACER, str(transcript), str(counter), "25"]) for _ in range(4)]
    assert [racer.wait() for racer in racers] == [0, 0, 0, 0]
    assert counter.read_text() == "100"


def test_the_same_writer_cannot_acquire_the_lock_twice(tmp_path: Path) -> None:
    async def scenario() -> None:
        lock = await acquire(tmp_path / "s.jsonl", "run-1")
        with pytest.raises(NestedLockError):
            await acquire(tmp_path / "s.jsonl", "run-1")
        lock.release()

    asyncio.run(scenario())


def test_a_reentrant_lock_is_released_with_the_last_release(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = tmp_path / "s.jsonl"
        outer = await acquire(path, "run-1")
        inner = await acquire(path, "run-1", allow_reentrant=True)
        inner.release()
        outer.check()
        with pytest.raises(SessionBusyError):
            await acquire(path, "run-2", timeout=0.0)
        outer.release()
        (await acquire(path, "run-2", timeout=0.0)).release()

    asyncio.run(scenario())


def test_two_writers_of_one_process_exclude_each_other(tmp_path: Path) -> None:
    async def scenario() -> list[str]:
        seen: list[str] = []

        async def write(name: str) -> None:
            lock = await acquire(tmp_path / "s.jsonl", name)
            seen.append(f"{name} in")
            await asyncio.sleep(0.003)
            seen.append(f"{name} out")
            lock.release()

        await asyncio.gather(*(write(name) for name in "abc"))
        return seen

    seen = asyncio.run(scenario())
    assert [entry.split()[1] for entry in seen] == ["in", "out"] * 3
    assert all(seen[at].split()[0] == seen[at + 1].split()[0] for at in (0, 2, 4))


def test_a_revoked_lock_does_not_allow_writing_and_others_can_acquire_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        lock = await acquire(tmp_path / "s.jsonl", "run-1")
        lock.revoke()
        with pytest.raises(LostLockError):
            lock.check()
        other = await acquire(tmp_path / "s.jsonl", "run-2", timeout=0.0)
        lock.release()
        other.check()
        other.release()

    asyncio.run(scenario())


def test_a_removed_lock_file_is_detected_before_the_next_write(tmp_path: Path) -> None:
    async def scenario() -> None:
        lock = await acquire(tmp_path / "s.jsonl", "run-1")
        lock.path.unlink()
        with pytest.raises(LostLockError):
            lock.check()
        lock.release()

    asyncio.run(scenario())


def test_a_forked_child_does_not_release_the_lock_of_its_parent(tmp_path: Path) -> None:
    async def scenario() -> None:
        lock = await acquire(tmp_path / "s.jsonl", "run-1")
        child = os.fork()
        if child == 0:
            lock.release()
            os._exit(0)
        os.waitpid(child, 0)
        lock.check()
        lock.release()

    asyncio.run(scenario())
