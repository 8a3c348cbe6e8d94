"""Diagnosing the runs of a store on a process pool and on a Dask cluster, against a plain loop over the same runs.

    python benchmarks/fleet_diagnose.py [--runs N] [--events M] [--distinct D] [--workers W]

D distinct runs of a gateway, of M events each, are recorded, finalized and stored with diagnoses by older rules. The
loop, the pool and the cluster then diagnose all of them, one after the other, in as many rounds as N needs, each time
in a new copy of the store: copies of a run in one store would have the same seal, and be diagnosed once. In each round
one of the workers of the cluster is killed when a third is done, and another one is started.

Printed are diagnoses that differ from the local ones, other than in times, and the throughput per core, divided by that
of the loop: by wall time, which other work on the machine disturbs, and by processor time.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from io import BytesIO
from pathlib import Path
from statistics import median
from typing import NamedTuple

import msgspec
import psutil
from generator import Gateway, write_run

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from fleet_cluster import Cluster
from fleet_runs import OLD_RULES, diagnose_with_old_rules, without_times

from critiqor.diagnosis import RULE_SET_VERSION
from critiqor.fleet.compute.executor import ClusterWorkers, ProcessWorkers, Workers
from critiqor.fleet.compute.rediagnosis import diagnose_store
from critiqor.fleet.compute.selection import RunSelection
from critiqor.fleet.manifest import diagnosis_path
from critiqor.fleet.store.bundle import write_bundle
from critiqor.fleet.store.object_store import FleetStore, open_store
from critiqor.run.diagnosis import diagnose
from critiqor.run.store import Run, RunStore
from critiqor.session import finalize_session

HOSTS = 8
WATCH_SECONDS = 0.5
"""How often processes are looked at, which itself takes time from them."""


class Spent(NamedTuple):
    """Wall time and processor time in seconds."""

    wall: float
    cpu: float


class Round(NamedTuple):
    """What the three ways of diagnosing the same runs took."""

    loop: Spent
    pool: Spent
    cluster: Spent


class Watched:
    """Processor time and peak memory of processes while they exist."""

    def __init__(self, processes: Callable[[], list[psutil.Process]]) -> None:
        self._processes = processes
        self._cpu: dict[int, float] = {}
        self._peak_kb = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    @property
    def cpu(self) -> float:
        return sum(self._cpu.values())

    @property
    def peak_mb(self) -> float:
        return self._peak_kb / 1024

    def __enter__(self) -> Watched:
        self._first = {each.pid: _cpu_of(each) for each in self._processes()}
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._is_over.wait(WATCH_SECONDS):
            for process in self._processes():
                try:
                    self._cpu[process.pid] = _cpu_of(process) - self._first.get(process.pid, 0.0)
                    peak = Path(f"/proc/{process.pid}/status").read_text().partition("VmHWM:")[2].split()[0]
                except (psutil.Error, OSError, IndexError):
                    continue
                self._peak_kb = max(self._peak_kb, int(peak))


def _cpu_of(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _cpu_of_ended() -> float:
    """Return the processor time of all processes that this one has started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def make_runs(folder: Path, count: int, events: int) -> list[Run]:
    """Record and finalize distinct runs, and have them diagnosed by older rules."""
    for number in range(count):

        class Seeded(Gateway):
            sessions = 4

            def __init__(self, seed: int = number) -> None:
                super().__init__(seed)

        write_run(folder, events, gateway=Seeded)
        finalize_session(runs_dir=folder)
    runs = RunStore(folder).runs()
    for run in runs:
        diagnose_with_old_rules(run)
    return runs


def store_runs(runs: list[Run], folder: Path) -> None:
    """Store runs as `critiqor push` does, as those of several hosts."""
    store = open_store(f"file://{folder}")
    for number, run in enumerate(runs):
        bundle = BytesIO()
        manifest = write_bundle(run, bundle, host=f"host-{number % HOSTS}")
        assert manifest.rule_set == OLD_RULES
        assert store.create(manifest.bundle_path, bundle.getvalue())
        assert store.create(manifest.manifest_path, msgspec.json.encode(manifest))


@contextmanager
def copied_store(original: Path) -> Iterator[FleetStore]:
    """A copy of a store without diagnoses; bundles are links."""
    copy = original.with_name(f"copy-{time.monotonic_ns()}")
    shutil.copytree(original, copy, copy_function=os.link)
    try:
        yield open_store(f"file://{copy}")
    finally:
        shutil.rmtree(copy)


def differing(store: FleetStore, local: dict[str, bytes]) -> int:
    """Return how many runs have no stored diagnosis, or another one than the local one."""
    count = 0
    for seal, expected in local.items():
        stored = store.read_if_exists(diagnosis_path(seal, RULE_SET_VERSION))
        count += stored is None or without_times(stored) != expected
    return count


def diagnose_on(workers: Workers, store: FleetStore, count: int) -> None:
    report = diagnose_store(store, RunSelection(), workers, advance=lambda: None, notice=print)
    assert (report.selected, report.failed) == (count, 0), report.problems[:3]


def loop_round(runs: list[Run]) -> Spent:
    wall, cpu = time.perf_counter(), time.process_time()
    for run in runs:
        diagnose(run)
    return Spent(time.perf_counter() - wall, time.process_time() - cpu)


def pool_round(original: Path, local: dict[str, bytes], processes: int) -> tuple[Spent, int, float]:
    own = psutil.Process()
    known = {each.pid for each in own.children(recursive=True)}
    with copied_store(original) as store:
        begun, cpu, children = time.perf_counter(), time.process_time(), _cpu_of_ended()
        with Watched(lambda: [each for each in own.children() if each.pid not in known]) as watched:
            with ProcessWorkers(processes) as workers:
                diagnose_on(workers, store, len(local))
            spent = time.perf_counter() - begun
        cpu = time.process_time() - cpu + _cpu_of_ended() - children
        return Spent(spent, cpu), differing(store, local), watched.peak_mb


def cluster_round(original: Path, local: dict[str, bytes], cluster: Cluster) -> tuple[Spent, int, float]:
    """One round with a worker that is killed when a third is done, and replaced."""
    is_over = threading.Event()

    def kill_one() -> None:
        while not is_over.wait(0.2):
            if sum(1 for _ in store.list("diagnoses")) >= len(local) / 3:
                victim = next(each for each in cluster.workers if each.poll() is None)
                victim.kill()
                victim.wait()
                cluster.add_worker()
                return

    def alive() -> list[psutil.Process]:
        pids = [each.pid for each in (cluster.scheduler, *cluster.workers) if each.poll() is None]
        return [psutil.Process(pid) for pid in pids]

    with copied_store(original) as store, Watched(alive) as watched:
        killing = threading.Thread(target=kill_one)
        killing.start()
        begun, cpu = time.perf_counter(), time.process_time()
        with ClusterWorkers(cluster.address) as workers:
            diagnose_on(workers, store, len(local))
        spent = time.perf_counter() - begun
        is_over.set()
        killing.join()
        return Spent(spent, time.process_time() - cpu + watched.cpu), differing(store, local), watched.peak_mb


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5000)
    parser.add_argument("--events", type=int, default=700)
    parser.add_argument("--distinct", type=int, default=250)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    distinct = min(options.distinct, options.runs)
    with tempfile.TemporaryDirectory() as name, ExitStack() as ends:
        folder = Path(name)
        begun = time.perf_counter()
        runs = make_runs(folder / "runs", distinct, options.events)
        store_runs(runs, folder / "store")
        print(f"{distinct} runs of {options.events} events made in {time.perf_counter() - begun:.0f} s", flush=True)
        cluster = Cluster(folder, ends)
        for _ in range(options.workers):
            cluster.add_worker()
        cluster.wait_for_workers()
        measure(runs, folder / "store", cluster, options.runs, options.workers)


def measure(runs: list[Run], original: Path, cluster: Cluster, total: int, processes: int) -> None:
    rounds: list[Round] = []
    differ = {"pool": 0, "cluster": 0}
    peaks = {"pool": 0.0, "cluster": 0.0}
    while len(rounds) * len(runs) < total:
        loop = loop_round(runs)
        local = {run.diagnosis.evidence_digest: without_times(run.diagnosis_path.read_bytes()) for run in runs}
        pool, pool_differing, pool_peak = pool_round(original, local, processes)
        on_cluster, cluster_differing, cluster_peak = cluster_round(original, local, cluster)
        rounds.append(Round(loop, pool, on_cluster))
        differ["pool"] += pool_differing
        differ["cluster"] += cluster_differing
        peaks = {"pool": max(peaks["pool"], pool_peak), "cluster": max(peaks["cluster"], cluster_peak)}
        print(
            f"round {len(rounds)}: loop {loop.wall:.1f} s, pool {pool.wall:.1f} s, cluster {on_cluster.wall:.1f} s",
            flush=True,
        )
    print(f"{len(rounds) * len(runs)} diagnoses each, {len(runs)} distinct runs, {processes} workers")
    print(f"loop                {median(len(runs) / each.loop.wall for each in rounds):.1f} runs a second")
    for name in ("pool", "cluster"):
        spent = [(each.loop, each.pool if name == "pool" else each.cluster) for each in rounds]
        wall = median(loop.wall / (mine.wall * processes) for loop, mine in spent)
        cpu = median(loop.cpu / mine.cpu for loop, mine in spent)
        killed = f", {len(rounds)} workers killed" if name == "cluster" else ""
        print(f"{name}{killed}")
        print(f"  differing diagnoses            {differ[name]} (must be 0)")
        print(f"  per core ÷ loop, by wall time  {wall:.2f} (at least 0.8)")
        print(f"  per core ÷ loop, by cpu time   {cpu:.2f}")
        print(f"  memory of a worker             {peaks[name]:.0f} MB at most")


if __name__ == "__main__":
    main()
