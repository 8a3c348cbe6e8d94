"""Structs of a trace: a run as slices, instants and counters for trace viewers.

All times are whole microseconds since 1970. A trace has only names, ids and numbers: arguments, results and messages
stay in the evidence.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Literal, NamedTuple, TypeGuard

import msgspec

from critiqor.model.sanitize import sanitize

Fact = str | int | float | bool
Category = Literal[
    "process",
    "agent",
    "turn",
    "model",
    "tool",
    "memory",
    "compaction",
    "span",
    "provider",
    "child",
    "mark",
    "event",
    "finding",
]

MAX_TEXT = 256
"""Characters of a name or a fact."""
MAX_MS = 1e11
"""Longest duration in milliseconds: three years."""


class Track(NamedTuple):
    """A row of the trace. The viewer spreads overlapping slices over several lanes."""

    pid: int | None
    """The process; null for the run as a whole, or if unknown."""
    name: str


class TraceProcess(msgspec.Struct, frozen=True, gc=False):
    """A process and its role."""

    pid: int | None
    """Null for the run as a whole."""
    name: str


class Slice(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Something with a start and an end."""

    track: Track
    name: str
    category: Category
    start_us: int
    end_us: int | None
    """Null if no end is known: it lasts to the end of the trace."""
    depth: int | None = None
    """Nesting depth, if known: of two slices with a depth only the deeper one can be inside the other. Slices without
    one are nested by their times."""
    family: str | None = None
    """Owner, if known: slices of different owners are never nested."""
    finished: bool = True
    """Whether its end was recorded. Otherwise its end can be that of the slice around it."""
    failed: bool = False
    facts: dict[str, Fact] = msgspec.field(default_factory=dict)
    """Ids, models, tokens and codes, which help to find it in the evidence."""


class Instant(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Something at one moment."""

    track: Track
    name: str
    category: Category
    at_us: int
    facts: dict[str, Fact] = msgspec.field(default_factory=dict)


class Counter(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Values of a process at one moment."""

    pid: int | None
    name: str
    unit: str
    at_us: int
    figures: dict[str, float]
    """Values by name; the name is empty if that of the counter is enough."""


Part = Slice | Instant | Counter


class Trace(msgspec.Struct, kw_only=True):
    """The trace of a run."""

    run_id: str
    processes: list[TraceProcess]
    """In display order; includes every process of a track or counter."""
    slices: list[Slice] = msgspec.field(default_factory=list)
    instants: list[Instant] = msgspec.field(default_factory=list)
    counters: list[Counter] = msgspec.field(default_factory=list)
    notes: list[str] = msgspec.field(default_factory=list)
    """Sentences about what is missing, and why."""

    @property
    def start_us(self) -> int:
        """The earliest time; 0 for an empty trace."""
        return min(chain((slice_.start_us for slice_ in self.slices), self._moments()), default=0)

    @property
    def end_us(self) -> int:
        """The latest time; slices without an end last until then."""
        ends = (max(slice_.start_us, slice_.end_us or 0) for slice_ in self.slices)
        return max(chain(ends, self._moments()), default=0)

    def _moments(self) -> Iterator[int]:
        yield from (instant.at_us for instant in self.instants)
        yield from (counter.at_us for counter in self.counters)


def label(text: str) -> str:
    """Return an untrusted text for a slice or instant of a `Trace`: sanitized, on one line, of bounded length."""
    return sanitize(text, max_length=MAX_TEXT)


def is_retry(part: Part) -> TypeGuard[Slice | Instant]:
    """Return whether a part is a retry: another attempt of an agent run, or of a request that its provider refused."""
    if isinstance(part, Slice) and part.category == "agent":
        attempt = part.facts.get("attempt")
        return isinstance(attempt, int | float) and attempt > 1
    return isinstance(part, Instant) and part.category == "event" and part.name == "provider_retry"


def tracks_of(trace: Trace) -> dict[Track, list[Slice]]:
    """Return the slices of each track, in the order of the processes; a track may have only instants."""
    tracks: dict[Track, list[Slice]] = {}
    for instant in trace.instants:
        tracks.setdefault(instant.track, [])
    for slice_ in trace.slices:
        tracks.setdefault(slice_.track, []).append(slice_)
    places = {process.pid: place for place, process in enumerate(trace.processes)}
    return dict(sorted(tracks.items(), key=lambda item: places[item[0].pid]))
