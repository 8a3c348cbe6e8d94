"""Where the time of CPU profiles went: by function, by thread, and in the busiest windows."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from heapq import nlargest
from itertools import pairwise
from typing import NamedTuple

from critiqor.model.event import iso_from_ms
from critiqor.model.profiles import (
    IDLE,
    CodeFrame,
    CpuProfile,
    FunctionShare,
    FunctionTime,
    PeakWindow,
    ProfiledThread,
)

WINDOW_US = 1_000_000
COLLECTOR = "(garbage collector)"
ROOT = "(root)"
TRACING = "node:internal/trace_events_async_hooks"
"""Runs only where trace events are written: its time is the profiling's own."""
MOST_FUNCTIONS = 100_000
"""Functions that are remembered; beyond, those with the least time are forgotten."""
TOLD_FUNCTIONS = 20
TOLD_OF_THREAD = 5
TOLD_OF_WINDOW = 3
TOLD_THREADS = 50
TOLD_WINDOWS = 10
WINDOWS_OF_THREAD = 3


class Times(NamedTuple):
    """Microseconds of each frame of a profile."""

    own: list[int]
    total: list[int]
    busy: int
    tracing: int
    """With everything that was called by it."""


class Hotspots:
    """Adds up CPU profiles, one after the other."""

    def __init__(self) -> None:
        self._own: Counter[CodeFrame] = Counter()
        self._total: Counter[CodeFrame] = Counter()
        self._threads: list[ProfiledThread] = []
        self._windows: list[PeakWindow] = []
        self.threads_total = 0
        self._busy_us = 0
        self._tracing_us = 0

    def add(self, profile: CpuProfile) -> None:
        """One more."""
        times = times_of(profile)
        for frame, own, total in zip(profile.frames, times.own, times.total, strict=True):
            if total and frame.name not in (IDLE, ROOT):
                self._own[frame] += own
                self._total[frame] += total
        self._forget()
        self._busy_us += times.busy
        self._tracing_us += times.tracing
        self.threads_total += 1
        self._threads.append(_thread(profile, times))
        self._threads = nlargest(TOLD_THREADS, self._threads, key=lambda thread: thread.busy_ms)
        self._windows += peak_windows(profile)
        self._windows = nlargest(TOLD_WINDOWS, self._windows, key=lambda window: window.busy_ms)

    def _forget(self) -> None:
        if len(self._total) > MOST_FUNCTIONS:
            self._total = Counter(dict(self._total.most_common(MOST_FUNCTIONS // 2)))
            self._own = Counter({frame: self._own[frame] for frame in self._total})

    @property
    def busy_ms(self) -> float:
        """Of all threads."""
        return _ms(self._busy_us)

    @property
    def tracing_ms(self) -> float:
        """What the writing of trace events took of that."""
        return _ms(self._tracing_us)

    def threads(self) -> list[ProfiledThread]:
        """Those that were busy the longest."""
        return self._threads

    def windows(self) -> list[PeakWindow]:
        """The busiest ones."""
        return self._windows

    def by_self_time(self) -> list[FunctionTime]:
        """The functions with the most own time."""
        return [self._function(frame) for frame, own in _largest(self._own, TOLD_FUNCTIONS) if own]

    def by_total_time(self) -> list[FunctionTime]:
        """The functions with the most time, with what they called."""
        return [self._function(frame) for frame, _ in _largest(self._total, TOLD_FUNCTIONS)]

    def program_by_total_time(self) -> list[FunctionTime]:
        """The same, without functions of Node and V8."""
        program = Counter({frame: total for frame, total in self._total.items() if _is_of_program(frame)})
        return [self._function(frame) for frame, _ in _largest(program, TOLD_FUNCTIONS)]

    def _function(self, frame: CodeFrame) -> FunctionTime:
        return FunctionTime(function=frame, self_ms=_ms(self._own[frame]), total_ms=_ms(self._total[frame]))


def lengths(profile: CpuProfile) -> Iterator[int]:
    """How long each sample lasted, in microseconds."""
    starts = profile.starts_us
    for begin, end in pairwise(starts):
        yield end - begin
    if starts:
        yield profile.duration_us - starts[-1]


def times_of(profile: CpuProfile) -> Times:
    """The time of each function: its own, and with what it called."""
    nodes = array("q", bytes(8 * len(profile.node_frames)))
    for node, length in zip(profile.samples, lengths(profile), strict=True):
        nodes[node] += length
    own = [0] * len(profile.frames)
    for frame, length in zip(profile.node_frames, nodes, strict=True):
        own[frame] += length
    for node in range(len(nodes) - 1, -1, -1):
        parent = profile.node_parents[node]
        if parent >= 0:
            nodes[parent] += nodes[node]
    idle = sum(length for frame, length in zip(profile.frames, own, strict=True) if frame.name == IDLE)
    total = outermost(profile.node_frames, profile.node_parents, nodes, len(profile.frames))
    traced = [frame.file == TRACING for frame in profile.frames]
    of_tracing = [traced[frame] for frame in profile.node_frames]
    tracing = outermost(of_tracing, profile.node_parents, nodes, 2)[True]
    return Times(own, total, sum(own) - idle, tracing)


def outermost(groups: Sequence[int], parents: Sequence[int], amounts: Sequence[int], number: int) -> list[int]:
    """For each group of nodes what its outermost ones hold: a function that calls itself counts once.

    Every subtree must stand in one piece, behind its root.
    """
    totals = [0] * number
    open_groups = [0] * number
    path: list[int] = []
    for node, group in enumerate(groups):
        while path and path[-1] != parents[node]:
            open_groups[groups[path.pop()]] -= 1
        if not open_groups[group]:
            totals[group] += amounts[node]
        open_groups[group] += 1
        path.append(node)
    return totals


def peak_windows(profile: CpuProfile) -> list[PeakWindow]:
    """The busiest windows of one profile, the busiest first; none in which nothing happened."""
    idle = [profile.frames[frame].name == IDLE for frame in profile.node_frames]
    busy = array("q", bytes(8 * (profile.duration_us // WINDOW_US + 1)))
    for node, begin, length in zip(profile.samples, profile.starts_us, lengths(profile), strict=True):
        if idle[node]:
            continue
        window = begin // WINDOW_US
        inside = (window + 1) * WINDOW_US - begin
        while length > inside:
            busy[window] += inside
            window, length, inside = window + 1, length - inside, WINDOW_US
        busy[window] += length
    numbers = nlargest(WINDOWS_OF_THREAD, range(len(busy)), key=lambda number: (busy[number], -number))
    return [_window(profile, number, busy[number]) for number in numbers if busy[number]]


def _window(profile: CpuProfile, number: int, busy_us: int) -> PeakWindow:
    begin, end = number * WINDOW_US, min((number + 1) * WINDOW_US, profile.duration_us)
    own: Counter[CodeFrame] = Counter()
    place = max(bisect_right(profile.starts_us, begin) - 1, 0)
    while place < len(profile.samples) and profile.starts_us[place] < end:
        last = place + 1 == len(profile.samples)
        until = profile.duration_us if last else profile.starts_us[place + 1]
        frame = profile.frames[profile.node_frames[profile.samples[place]]]
        if frame.name != IDLE:
            own[frame] += max(min(until, end) - max(profile.starts_us[place], begin), 0)
        place += 1
    return PeakWindow(
        pid=profile.pid,
        thread=profile.thread,
        at=_iso(profile.started_ms, begin),
        offset_ms=_ms(begin),
        duration_ms=_ms(end - begin),
        busy_ms=_ms(busy_us),
        functions=_shares(own, TOLD_OF_WINDOW),
    )


def _thread(profile: CpuProfile, times: Times) -> ProfiledThread:
    own = Counter({frame: length for frame, length in zip(profile.frames, times.own, strict=True) if length})
    collecting = sum(length for frame, length in own.items() if frame.name == COLLECTOR)
    busy = Counter({frame: length for frame, length in own.items() if frame.name != IDLE})
    return ProfiledThread(
        pid=profile.pid,
        thread=profile.thread,
        started_at=_iso(profile.started_ms, 0),
        duration_ms=_ms(profile.duration_us),
        busy_ms=_ms(times.busy),
        collecting_ms=_ms(collecting),
        functions=_shares(busy, TOLD_OF_THREAD),
    )


def _shares(own: Counter[CodeFrame], number: int) -> list[FunctionShare]:
    return [FunctionShare(function=frame, self_ms=_ms(length)) for frame, length in _largest(own, number) if length]


def _largest(counted: Counter[CodeFrame], number: int) -> list[tuple[CodeFrame, int]]:
    """The same answer whatever order they were counted in."""
    return nlargest(number, counted.items(), key=lambda item: (item[1], item[0].name, item[0].file or ""))


def _is_of_program(frame: CodeFrame) -> bool:
    return frame.file is not None and not frame.file.startswith("node:")


def _iso(started_ms: float | None, offset_us: int) -> str | None:
    return None if started_ms is None else iso_from_ms(int(started_ms + offset_us / 1000))


def _ms(microseconds: int) -> float:
    return microseconds / 1000
