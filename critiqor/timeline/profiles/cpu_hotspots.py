"""Hotspots of CPU profiles: time by function, by thread, and in the busiest windows."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from heapq import nlargest
from itertools import pairwise
from typing import NamedTuple

from critiqor.model.profiles import (
    IDLE,
    CodeFrame,
    CpuProfile,
    FunctionShare,
    FunctionTime,
    PeakWindow,
    ProfiledThread,
)
from critiqor.model.timestamps import iso_from_ms

WINDOW_US = 1_000_000
COLLECTOR = "(garbage collector)"
ROOT = "(root)"
TRACING = "node:internal/trace_events_async_hooks"
"""Module that runs only while trace events are written: its time is profiling overhead."""
MAX_FUNCTIONS = 100_000
"""Functions that are remembered; when there are more, those with the least time are dropped."""
MAX_FUNCTIONS_LISTED = 20
MAX_FUNCTIONS_PER_THREAD = 5
MAX_FUNCTIONS_PER_WINDOW = 3
MAX_THREADS_LISTED = 50
MAX_WINDOWS_LISTED = 10
MAX_WINDOWS_PER_THREAD = 3


class Times(NamedTuple):
    """Times of a profile in microseconds; `own` and `total` by frame."""

    own: list[int]
    total: list[int]
    busy: int
    tracing: int
    """Time of writing trace events, with everything it called."""


class Hotspots:
    """Adds up CPU profiles."""

    def __init__(self) -> None:
        self._own: Counter[CodeFrame] = Counter()
        self._total: Counter[CodeFrame] = Counter()
        self._threads: list[ProfiledThread] = []
        self._windows: list[PeakWindow] = []
        self.threads_total = 0
        self._busy_us = 0
        self._tracing_us = 0

    def add(self, profile: CpuProfile) -> None:
        """Add a profile."""
        times = frame_times(profile)
        for frame, own, total in zip(profile.frames, times.own, times.total, strict=True):
            if total and frame.name not in (IDLE, ROOT):
                self._own[frame] += own
                self._total[frame] += total
        self._drop_least()
        self._busy_us += times.busy
        self._tracing_us += times.tracing
        self.threads_total += 1
        self._threads.append(_thread(profile, times))
        self._threads = nlargest(MAX_THREADS_LISTED, self._threads, key=lambda thread: thread.busy_ms)
        self._windows += busiest_windows(profile)
        self._windows = nlargest(MAX_WINDOWS_LISTED, self._windows, key=lambda window: window.busy_ms)

    def _drop_least(self) -> None:
        if len(self._total) > MAX_FUNCTIONS:
            self._total = Counter(dict(self._total.most_common(MAX_FUNCTIONS // 2)))
            self._own = Counter({frame: self._own[frame] for frame in self._total})

    @property
    def busy_ms(self) -> float:
        """Busy time of all threads."""
        return _ms(self._busy_us)

    @property
    def tracing_ms(self) -> float:
        """The part of the busy time of the CPU that was spent on writing trace events."""
        return _ms(self._tracing_us)

    def threads(self) -> list[ProfiledThread]:
        """Return the busiest threads."""
        return self._threads

    def windows(self) -> list[PeakWindow]:
        """Return the busiest windows."""
        return self._windows

    def by_self_time(self) -> list[FunctionTime]:
        """Return the functions with the most self time."""
        return [self._function(frame) for frame, own in _largest(self._own, MAX_FUNCTIONS_LISTED) if own]

    def by_total_time(self) -> list[FunctionTime]:
        """Return the functions with the most time, including their callees."""
        return [self._function(frame) for frame, _ in _largest(self._total, MAX_FUNCTIONS_LISTED)]

    def program_by_total_time(self) -> list[FunctionTime]:
        """Return the same without functions of Node and V8."""
        program = Counter({frame: total for frame, total in self._total.items() if _is_program_code(frame)})
        return [self._function(frame) for frame, _ in _largest(program, MAX_FUNCTIONS_LISTED)]

    def _function(self, frame: CodeFrame) -> FunctionTime:
        return FunctionTime(function=frame, self_ms=_ms(self._own[frame]), total_ms=_ms(self._total[frame]))


def _sample_lengths(profile: CpuProfile) -> Iterator[int]:
    """Yield the duration of each sample in microseconds."""
    starts = profile.starts_us
    for begin, end in pairwise(starts):
        yield end - begin
    if starts:
        yield profile.duration_us - starts[-1]


def frame_times(profile: CpuProfile) -> Times:
    """Return the CPU time of each function of a profile, without and with its callees."""
    nodes = array("q", bytes(8 * len(profile.node_frames)))
    for node, length in zip(profile.samples, _sample_lengths(profile), strict=True):
        nodes[node] += length
    own = [0] * len(profile.frames)
    for frame, length in zip(profile.node_frames, nodes, strict=True):
        own[frame] += length
    for node in range(len(nodes) - 1, -1, -1):
        parent = profile.node_parents[node]
        if parent >= 0:
            nodes[parent] += nodes[node]
    idle = sum(length for frame, length in zip(profile.frames, own, strict=True) if frame.name == IDLE)
    total = outermost_totals(profile.node_frames, profile.node_parents, nodes, len(profile.frames))
    traced = [frame.file == TRACING for frame in profile.frames]
    of_tracing = [traced[frame] for frame in profile.node_frames]
    tracing = outermost_totals(of_tracing, profile.node_parents, nodes, 2)[True]
    return Times(own, total, sum(own) - idle, tracing)


def outermost_totals(groups: Sequence[int], parents: Sequence[int], amounts: Sequence[int], number: int) -> list[int]:
    """Return, for each group of nodes, the sum over its outermost nodes: a function that calls itself counts once.

    The nodes must be in preorder: every subtree directly follows its root.
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


def busiest_windows(profile: CpuProfile) -> list[PeakWindow]:
    """Return the windows of a profile with the most CPU time, the busiest first, without idle ones."""
    idle = [profile.frames[frame].name == IDLE for frame in profile.node_frames]
    busy = array("q", bytes(8 * (profile.duration_us // WINDOW_US + 1)))
    for node, begin, length in zip(profile.samples, profile.starts_us, _sample_lengths(profile), strict=True):
        if idle[node]:
            continue
        window = begin // WINDOW_US
        inside = (window + 1) * WINDOW_US - begin
        while length > inside:
            busy[window] += inside
            window, length, inside = window + 1, length - inside, WINDOW_US
        busy[window] += length
    numbers = nlargest(MAX_WINDOWS_PER_THREAD, range(len(busy)), key=lambda number: (busy[number], -number))
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
        functions=_shares(own, MAX_FUNCTIONS_PER_WINDOW),
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
        functions=_shares(busy, MAX_FUNCTIONS_PER_THREAD),
    )


def _shares(own: Counter[CodeFrame], number: int) -> list[FunctionShare]:
    return [FunctionShare(function=frame, self_ms=_ms(length)) for frame, length in _largest(own, number) if length]


def _largest(counted: Counter[CodeFrame], number: int) -> list[tuple[CodeFrame, int]]:
    """Return the largest counts; ties are broken by name, so that the order of counting does not matter."""
    return nlargest(number, counted.items(), key=lambda item: (item[1], item[0].name, item[0].file or ""))


def _is_program_code(frame: CodeFrame) -> bool:
    return frame.file is not None and not frame.file.startswith("node:")


def _iso(started_ms: float | None, offset_us: int) -> str | None:
    return None if started_ms is None else iso_from_ms(int(started_ms + offset_us / 1000))


def _ms(microseconds: int) -> float:
    return microseconds / 1000
