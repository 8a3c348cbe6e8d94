"""Many tasks on processes that can die: every task ends once, and one that kills its process costs only itself."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from critiqor.fleet.compute.batch import SUBMITTED_PER_WORKER, Batch, WorkerDiedError
from critiqor.fleet.compute.executor import ProcessWorkers


def square(number: int) -> int:
    return number * number


def dies_at_three(number: int) -> int:
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def fails_at_three(number: int) -> int:
    if number == 3:
        raise ValueError("three")
    return number


def dies_once(marker: str) -> str:
    """Kill the process that executes it the first time."""
    folder, _, name = marker.rpartition("/")
    if name == "5":
        try:
            Path(folder, "died").touch(exist_ok=False)
        except FileExistsError:
            return name
        os.kill(os.getpid(), signal.SIGKILL)
    return name


def leaves_a_file(folder: str) -> str:
    Path(folder, "left").touch()
    os.kill(os.getpid(), signal.SIGKILL)
    return folder


def test_every_task_ends_once_and_few_are_submitted_at_a_time() -> None:
    taken = count()

    def numbers() -> Iterator[int]:
        for number in range(50):
            next(taken)
            yield number

    ended = []
    with ProcessWorkers(2) as workers:
        for done in Batch(workers, square, notice=print).results(numbers()):
            ended.append(done.result)
            in_flight = int(repr(taken)[6:-1]) - len(ended)
            assert in_flight <= 2 * SUBMITTED_PER_WORKER
    assert sorted(number for number in ended if number is not None) == [number * number for number in range(50)]


def test_a_task_that_kills_its_process_twice_is_given_up_and_costs_no_other() -> None:
    notices: list[str] = []
    with ProcessWorkers(2) as workers:
        ended = list(Batch(workers, dies_at_three, notices.append).results(range(12)))
    assert sorted(done.task for done in ended) == list(range(12))
    assert [done.task for done in ended if isinstance(done.error, WorkerDiedError)] == [3]
    assert sorted(done.result for done in ended if done.result is not None) == [*range(3), *range(4, 12)]
    assert len(notices) == 1


def test_a_process_that_is_killed_once_loses_no_task(tmp_path: Path) -> None:
    with ProcessWorkers(2) as workers:
        tasks = [f"{tmp_path}/{number}" for number in range(12)]
        ended = list(Batch(workers, dies_once, notice=print).results(tasks))
    assert Counter(done.result for done in ended) == Counter(map(str, range(12)))


def test_an_exception_is_the_outcome_of_its_task_only() -> None:
    with ProcessWorkers(2) as workers:
        ended = {done.task: done for done in Batch(workers, fails_at_three, notice=print).results(range(6))}
    assert isinstance(ended[3].error, ValueError)
    assert all(ended[number].result == number for number in (0, 1, 2, 4, 5))


def test_files_of_killed_processes_are_removed_with_the_pool() -> None:
    with ProcessWorkers(1) as workers:
        assert workers.scratch is not None
        folder = Path(workers.scratch)
        list(Batch(workers, leaves_a_file, notice=print).results([workers.scratch]))
        assert (folder / "left").exists()
    assert not folder.exists()


def test_processes_end_when_the_one_that_started_them_is_killed(tmp_path: Path) -> None:
    from subprocess import PIPE, Popen

    import psutil

    program = """
import sys, time
from critiqor.fleet.compute.executor import ProcessWorkers
from os import getpid
if __name__ == "__main__":
    workers = ProcessWorkers(2)
    print(*{workers.executor.submit(getpid).result() for _ in range(8)}, flush=True)
    time.sleep(600)
"""
    script = tmp_path / "driver.py"
    script.write_text(program)
    import sys

    with Popen([sys.executable, str(script)], stdout=PIPE, text=True) as driver:
        assert driver.stdout is not None
        workers = [psutil.Process(int(pid)) for pid in driver.stdout.readline().split()]
        driver.kill()
    assert workers
    deadline = time.monotonic() + 60
    while any(worker.is_running() and worker.status() != psutil.STATUS_ZOMBIE for worker in workers):
        assert time.monotonic() < deadline
        time.sleep(0.05)
