"""Memory and CPU of a process tree by role, sampled from outside while it runs.

A sample costs the sampled processes nothing and us a few milliseconds; how many, and how often, is told with the
figures. Processes that live shorter than an interval can be missed.
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
MOST_POINTS = 240
"""Points of the series that is kept; when it is full, every second one is dropped and the interval doubles."""


class ProcessSample(NamedTuple):
    """One process at one moment."""

    pid: int
    started_at: float
    role: str
    rss_bytes: int
    cpu_seconds: float


class Usage:
    """Adds samples up."""

    def __init__(self) -> None:
        self._roles: dict[str, RoleUsage] = {}
        self._cpu: dict[tuple[int, float], tuple[str, float]] = {}
        self._series: list[ResourcePoint] = []
        self._stride = 1
        self._began: float | None = None
        self.samples = 0
        self.peak_rss_bytes = 0

    def add(self, moment: float, processes: Iterable[ProcessSample]) -> None:
        """Take in one look at the tree."""
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
        if len(self._series) >= MOST_POINTS:
            self._series = self._series[::2]
            self._stride *= 2

    def _role(self, role: str) -> RoleUsage:
        return self._roles.setdefault(role, RoleUsage(role=role))

    def summary(self, interval: float, overhead: float) -> ResourceUsage:
        """Everything that was seen."""
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
    """Looks at a process tree now and then, until it is told to stop."""

    def __init__(self, tree: Callable[[], list[psutil.Process]], interval: float = INTERVAL_SECONDS) -> None:
        self._tree = tree
        self._interval = interval
        self._usage = Usage()
        self._overhead = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def samples(self) -> int:
        """How often it has looked so far."""
        return self._usage.samples

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> ResourceUsage | None:
        """What was seen; None where the tree was gone before the first look."""
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
    """What a process of the tree is there for, by its title and command line."""
    words = " ".join(command)
    if "openclaw-gateway" in name or "openclaw-gateway" in words or " gateway run" in words:
        return "gateway"
    if any(program in words for program in _AGENT_PROGRAMS):
        return "agent"
    if "mcp" in words:
        return "mcp server"
    if "openclaw" in words or "openclaw" in name:
        return "openclaw"
    # Node names its main thread, and a process is called like that.
    program = command[0].rpartition("/")[2] if command else name
    return "node" if name.startswith("node") or program.startswith("node") else "tool"
