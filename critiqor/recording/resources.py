"""Sample memory and CPU time of a process tree by role while it runs.

A sample costs the sampled processes nothing and Critiqor a few milliseconds; the cost and the interval are part of the
result. Processes that live for less than an interval can be missed.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

import psutil

from critiqor.model.resources import ResourcePoint, ResourceUsage, RoleUsage

INTERVAL_SECONDS = 2.0
MAX_POINTS = 240
"""Points of the series. When it is full, every second point is dropped and the interval doubles."""


class ProcessSample(NamedTuple):
    """Memory and CPU time of one process at one moment."""

    pid: int
    started_at: float
    role: str
    rss_bytes: int
    cpu_seconds: float


class Usage:
    """Aggregates samples of a process tree."""

    def __init__(self) -> None:
        self._roles: dict[str, RoleUsage] = {}
        self._cpu: dict[tuple[int, float], tuple[str, float]] = {}
        self._series: list[ResourcePoint] = []
        self._stride = 1
        self._began: float | None = None
        self.samples = 0
        self.peak_rss_bytes = 0

    def add(self, moment: float, processes: Iterable[ProcessSample]) -> None:
        """Add the samples of all processes at one moment, in seconds of a monotonic clock."""
        self._began = moment if self._began is None else self._began
        memory: dict[str, int] = {}
        for process in processes:
            memory[process.role] = memory.get(process.role, 0) + process.rss_bytes
            key = (process.pid, process.started_at)
            if key not in self._cpu:
                self._role(process.role).processes += 1
            self._cpu[key] = (process.role, process.cpu_seconds)
        for role, rss in memory.items():
            usage = self._role(role)
            usage.peak_rss_bytes = max(usage.peak_rss_bytes, rss)
        total = sum(memory.values())
        self.peak_rss_bytes = max(self.peak_rss_bytes, total)
        if self.samples % self._stride == 0:
            seconds = round(sum(cpu for _, cpu in self._cpu.values()), 3)
            self._series.append(ResourcePoint(round(moment - self._began, 3), total, seconds))
        self.samples += 1
        if len(self._series) >= MAX_POINTS:
            self._series = self._series[::2]
            self._stride *= 2

    def _role(self, role: str) -> RoleUsage:
        return self._roles.setdefault(role, RoleUsage(role=role))

    def summary(self, interval: float, overhead: float) -> ResourceUsage:
        """Return the totals, the peaks and the series of the resources of all processes."""
        for usage in self._roles.values():
            usage.cpu_seconds = round(sum(cpu for role, cpu in self._cpu.values() if role == usage.role), 3)
        return ResourceUsage(
            interval_seconds=interval,
            samples=self.samples,
            overhead_seconds=round(overhead, 3),
            peak_rss_bytes=self.peak_rss_bytes,
            cpu_seconds=round(sum(cpu for _, cpu in self._cpu.values()), 3),
            roles=sorted(self._roles.values(), key=lambda usage: (-usage.peak_rss_bytes, usage.role)),
            series=self._series,
        )


class ResourceSampler:
    """Samples a process tree on a thread until it is stopped."""

    def __init__(self, tree: Callable[[], list[psutil.Process]], interval: float = INTERVAL_SECONDS) -> None:
        self._tree = tree
        self._interval = interval
        self._usage = Usage()
        self._overhead = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def samples(self) -> int:
        """Number of samples taken so far."""
        return self._usage.samples

    def start(self) -> None:
        """Start sampling."""
        self._thread.start()

    def stop(self) -> ResourceUsage | None:
        """Stop sampling and return the usage; None if the tree ended before the first sample."""
        self._stop.set()
        self._thread.join()
        return self._usage.summary(self._interval, self._overhead) if self._usage.samples else None

    def _run(self) -> None:
        while not self._stop.wait(min(self._interval, 0.5) if not self._usage.samples else self._interval):
            began = time.thread_time()
            samples = [sample for process in self._tree() if (sample := _sample(process)) is not None]
            if samples:
                self._usage.add(time.monotonic(), samples)
            self._overhead += time.thread_time() - began


def _sample(process: psutil.Process) -> ProcessSample | None:
    with contextlib.suppress(psutil.Error), process.oneshot():
        times = process.cpu_times()
        role = role_of(process.name(), process.cmdline())
        return ProcessSample(
            process.pid, process.create_time(), role, process.memory_info().rss, times.user + times.system
        )
    return None


_AGENT_PROGRAMS = ("critiqor.agentloop", "critiqor.lab.runners.embedded_host", "critiqor agent")


def role_of(name: str, command: list[str]) -> str:
    """Return the role of a process in the tree, by its title and command line."""
    words = " ".join(command)
    if "openclaw-gateway" in name or "openclaw-gateway" in words or " gateway run" in words:
        return "gateway"
    if any(program in words for program in _AGENT_PROGRAMS):
        return "agent"
    if "mcp" in words:
        return "mcp server"
    if "openclaw" in words or "openclaw" in name:
        return "openclaw"
    # Node renames its main thread, which changes the name of the process.
    program = command[0].rpartition("/")[2] if command else name
    return "node" if name.startswith("node") or program.startswith("node") else "tool"
