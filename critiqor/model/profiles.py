"""Deep profiles: what Node's own profilers say about a run. Figures only; what they wrote stays in its files.

All durations are milliseconds, all times UTC in ISO 8601, unless a field says otherwise. A `file` is a place within
a package, a module of Node's own or a bare file name, never a path of the machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

ArtifactKind = Literal["cpu_profile", "heap_profile", "trace_events", "diagnostic_report", "heap_snapshot", "other"]
ArtifactTrouble = Literal["empty", "torn", "damaged", "foreign", "too_large", "over_budget", "not_a_file", "unreadable"]
"""`torn` ends too early, `damaged` cannot be read, `foreign` can and is not what its name says, `over_budget` is in
order and was left out because so much of its kind had been read."""
IDLE = "(idle)"
"""What V8 calls the time in which a thread had nothing to do."""


class CodeFrame(msgspec.Struct, frozen=True, gc=False):
    """A function, or what V8 names instead of one, such as `(garbage collector)`."""

    name: str
    file: str | None = None
    line: int | None = None
    """From 1."""


class CpuProfile(msgspec.Struct, frozen=True, kw_only=True):
    """What one thread was doing, sample by sample. Times are microseconds since the profile began."""

    pid: int | None
    thread: int | None
    """0 for the main thread."""
    started_ms: float | None
    """Milliseconds since 1970, right to about a second; None where it cannot be known."""
    duration_us: int
    frames: list[CodeFrame]
    node_frames: Sequence[int]
    """For each node of the tree of calls its frame. A node stands before everything below it."""
    node_parents: Sequence[int]
    """For each node the one that called it, -1 for those that nobody called. A whole subtree stands in one piece."""
    samples: Sequence[int]
    """The node that was seen, in order of time."""
    starts_us: Sequence[int]
    """When each of them was seen. It is held to go on until the next one, the last one until the end."""


class ArtifactFigures(msgspec.Struct, frozen=True, kw_only=True):
    """All files of one kind."""

    kind: ArtifactKind
    files: int
    bytes: int
    used: int
    """Files that the figures come from. Heap snapshots are only counted: they hold everything that was in memory."""


class ArtifactProblem(msgspec.Struct, frozen=True, kw_only=True):
    """A file that could not be used, or only in part."""

    file: str
    kind: ArtifactKind
    trouble: ArtifactTrouble
    bytes: int


class FunctionTime(msgspec.Struct, frozen=True, kw_only=True):
    """Time of one function, over all threads of all processes."""

    function: CodeFrame
    self_ms: float
    """In its own code."""
    total_ms: float
    """With what it called; a function that calls itself counts once."""


class FunctionShare(msgspec.Struct, frozen=True, kw_only=True):
    """The own time of one function within a thread or a window."""

    function: CodeFrame
    self_ms: float


class ProfiledThread(msgspec.Struct, frozen=True, kw_only=True):
    """One thread of a process: one CPU profile."""

    pid: int | None
    thread: int | None
    """0 for the main thread."""
    started_at: str | None
    """Right to about a second; null where it cannot be known."""
    duration_ms: float
    busy_ms: float
    """In which it was not idle."""
    collecting_ms: float
    """In which it collected garbage; part of the busy time."""
    functions: list[FunctionShare]
    """Those with the most own time."""


class PeakWindow(msgspec.Struct, frozen=True, kw_only=True):
    """One of the busiest windows of a CPU profile."""

    pid: int | None
    thread: int | None
    at: str | None
    """When it began, right to about a second; null where it cannot be known."""
    offset_ms: float
    """Since the profile began."""
    duration_ms: float
    """Of the window; the last one of a profile is shorter."""
    busy_ms: float
    functions: list[FunctionShare]
    """Those with the most own time in it."""


class AllocationSite(msgspec.Struct, frozen=True, kw_only=True):
    """Memory that a function had allocated and that was still held when the profile was written; from samples."""

    function: CodeFrame
    self_bytes: int
    total_bytes: int
    """With what was allocated by what it called; a function that calls itself counts once."""


class TraceCategory(msgspec.Struct, frozen=True, kw_only=True):
    """Trace events of one category."""

    category: str
    events: int


class TraceDuration(msgspec.Struct, frozen=True, kw_only=True):
    """Trace events of one name that have a duration."""

    name: str
    category: str
    count: int
    total_ms: float
    max_ms: float


class NodeReport(msgspec.Struct, frozen=True, kw_only=True):
    """A diagnostic report. Its environment, command line and paths are never read."""

    pid: int | None
    at: str | None
    trigger: str | None
    """What made Node write it, such as `Signal` or `FatalError`."""
    heap_used_bytes: int | None
    heap_total_bytes: int | None
    heap_limit_bytes: int | None
    external_bytes: int | None
    """Memory outside the heap that objects in it hold, such as buffers."""


class ProfileSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What the deep profiles of a run tell, in bounded space whatever their size."""

    present: bool
    unavailable: str | None = None
    """Why there are none."""
    artifacts: list[ArtifactFigures] = []
    problems_total: int = 0
    problems: list[ArtifactProblem] = []
    """The first ones."""
    threads_total: int = 0
    threads: list[ProfiledThread] = []
    """Those that were busy the longest."""
    busy_ms: float = 0.0
    """Of all threads together."""
    profiling_ms: float = 0.0
    """The part of it that went into writing trace events: without profiling it would not have been spent."""
    by_self_time: list[FunctionTime] = []
    by_total_time: list[FunctionTime] = []
    program_by_total_time: list[FunctionTime] = []
    """Only functions of OpenClaw, its packages and plugins: Node's loader takes most places of the other list."""
    peak_windows: list[PeakWindow] = []
    """The busiest first, a few of each thread at most."""
    held_bytes: int = 0
    """What all heap profiles found still held."""
    allocations: list[AllocationSite] = []
    """The largest own ones."""
    trace_events: int = 0
    trace_categories: list[TraceCategory] = []
    trace_durations: list[TraceDuration] = []
    """Those with the longest single event."""
    reports: list[NodeReport] = []
    """The newest first."""


class SignalledArtifact(msgspec.Struct, frozen=True, kw_only=True):
    """A file that a process wrote because it was asked to."""

    file: str
    pid: int
    bytes: int


class ArtifactRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What came of asking the Node processes of a run for a report or a heap snapshot."""

    run_id: str
    kind: ArtifactKind
    asked: list[int]
    """Pids of the processes that were asked."""
    appeared: list[SignalledArtifact]
    silent: list[int]
    """Pids of those that wrote nothing in time, or ended before."""
    left_alone: int
    """Processes of the run that were not asked, because the signal could end them: they are not Node, or do not wait
    for it."""
