"""Structs of deep profiles: figures from the files that Node's profilers write.

All durations are milliseconds, all times UTC in ISO 8601, unless a field says otherwise. A `file` is a path within a
package, a built-in module of Node or a bare file name, never a path of the machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

ArtifactKind = Literal["cpu_profile", "heap_profile", "trace_events", "diagnostic_report", "heap_snapshot", "other"]
ArtifactTrouble = Literal["empty", "torn", "damaged", "foreign", "too_large", "over_budget", "not_a_file", "unreadable"]
"""`torn` ends too early, `damaged` cannot be read, `foreign` is readable but not what its name says, `over_budget` is
valid but was skipped because enough files of its kind had been read."""
IDLE = "(idle)"
"""V8's name for the time in which a thread was idle."""


class CodeFrame(msgspec.Struct, frozen=True, gc=False):
    """A function, or a V8 pseudo-function such as `(garbage collector)`."""

    name: str
    file: str | None = None
    line: int | None = None
    """From 1."""


class CpuProfile(msgspec.Struct, frozen=True, kw_only=True):
    """CPU samples of one thread. Times are microseconds since the start of the profile."""

    pid: int | None
    thread: int | None
    """0 for the main thread."""
    started_ms: float | None
    """Milliseconds since 1970, accurate to about a second; None if unknown."""
    duration_us: int
    frames: list[CodeFrame]
    node_frames: Sequence[int]
    """The frame of each node of the call tree. A node comes before its descendants."""
    node_parents: Sequence[int]
    """The caller of each node, -1 for roots. A subtree is contiguous."""
    samples: Sequence[int]
    """The node of each sample, in order of time."""
    starts_us: Sequence[int]
    """Time of each sample. A sample lasts until the next one, the last one until the end."""


class ArtifactFigures(msgspec.Struct, frozen=True, kw_only=True):
    """All files of one kind."""

    kind: ArtifactKind
    files: int
    bytes: int
    used: int
    """Number of files that the figures come from. Heap snapshots are only counted: they contain all memory."""


class ArtifactProblem(msgspec.Struct, frozen=True, kw_only=True):
    """A file that could not be used, or only partly."""

    file: str
    kind: ArtifactKind
    trouble: ArtifactTrouble
    bytes: int


class FunctionTime(msgspec.Struct, frozen=True, kw_only=True):
    """Time of one function, over all threads of all processes."""

    function: CodeFrame
    self_ms: float
    """Time in its own code, without callees."""
    total_ms: float
    """Including the functions that it called; recursion counts once."""


class FunctionShare(msgspec.Struct, frozen=True, kw_only=True):
    """Own time of one function within a thread or a window."""

    function: CodeFrame
    self_ms: float


class ProfiledThread(msgspec.Struct, frozen=True, kw_only=True):
    """One thread of a process: one CPU profile."""

    pid: int | None
    thread: int | None
    """0 for the main thread."""
    started_at: str | None
    """Accurate to about a second; null if unknown."""
    duration_ms: float
    busy_ms: float
    """Time in which it was not idle."""
    collecting_ms: float
    """Time spent collecting garbage; part of the busy time."""
    functions: list[FunctionShare]
    """Those with the most own time."""


class PeakWindow(msgspec.Struct, frozen=True, kw_only=True):
    """One of the busiest windows of a CPU profile."""

    pid: int | None
    thread: int | None
    at: str | None
    """Start, accurate to about a second; null if unknown."""
    offset_ms: float
    """Since the start of the profile."""
    duration_ms: float
    """Length of the window; the last one of a profile is shorter."""
    busy_ms: float
    functions: list[FunctionShare]
    """Those with the most own time in it."""


class AllocationSite(msgspec.Struct, frozen=True, kw_only=True):
    """Sampled memory that a function had allocated and that was still held when the profile was written."""

    function: CodeFrame
    self_bytes: int
    total_bytes: int
    """Including allocations of the functions that it called; recursion counts once."""


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
    """Why Node wrote it, such as `Signal` or `FatalError`."""
    heap_used_bytes: int | None
    heap_total_bytes: int | None
    heap_limit_bytes: int | None
    external_bytes: int | None
    """Memory outside the heap that is held by objects in it, such as buffers."""


class ProfileSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Summary of the deep profiles of a run, of bounded size."""

    present: bool
    unavailable: str | None = None
    """Why there are none."""
    artifacts: list[ArtifactFigures] = []
    problems_total: int = 0
    problems: list[ArtifactProblem] = []
    """The first problems found."""
    threads_total: int = 0
    threads: list[ProfiledThread] = []
    """The threads that were busy the longest."""
    busy_ms: float = 0.0
    """Busy time of all threads together."""
    profiling_ms: float = 0.0
    """Part of the busy time that was spent on writing trace events."""
    by_self_time: list[FunctionTime] = []
    by_total_time: list[FunctionTime] = []
    program_by_total_time: list[FunctionTime] = []
    """Only functions of OpenClaw, its packages and plugins, because Node's loader dominates the other list."""
    peak_windows: list[PeakWindow] = []
    """The busiest first, a few per thread."""
    held_bytes: int = 0
    """Bytes still held, over all heap profiles."""
    allocations: list[AllocationSite] = []
    """Those with the largest own allocations."""
    trace_events: int = 0
    trace_categories: list[TraceCategory] = []
    trace_durations: list[TraceDuration] = []
    """Those with the longest single event."""
    reports: list[NodeReport] = []
    """The newest first."""


class SignalledArtifact(msgspec.Struct, frozen=True, kw_only=True):
    """A file that a process wrote on request."""

    file: str
    pid: int
    bytes: int


class ArtifactRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Result of requesting reports or heap snapshots from the Node processes of a run."""

    run_id: str
    kind: ArtifactKind
    asked: list[int]
    """Pids of the processes that received the request."""
    appeared: list[SignalledArtifact]
    silent: list[int]
    """Pids of processes that wrote nothing in time, or ended before."""
    left_alone: int
    """Number of processes that received no signal, because it could end them: not Node, or without a handler."""
