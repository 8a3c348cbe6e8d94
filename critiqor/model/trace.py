"""A run as slices of time: what trace viewers and profilers draw.

All times are whole microseconds since 1970. Only names, ids and figures get in here: what tools were given, what they
answered and what was said stays in the evidence.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Literal, NamedTuple

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
"""Characters of a name or a fact: others chose them."""
LATEST_US = (1 << 53) - 1
"""No time is later: beyond it, a double can no longer count microseconds."""
LONGEST_MS = 1e11
"""No duration is longer: that is three years."""


class Track(NamedTuple):
    """A row of the picture. What overlaps on it is spread over several lanes by whoever draws it."""

    pid: int | None
    """The process; null for what belongs to the run as a whole, or does not say whose it is."""
    name: str


class TraceProcess(msgspec.Struct, frozen=True, gc=False):
    """One process, and what it is there for."""

    pid: int | None
    """Null for the run as a whole."""
    name: str


class Slice(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Something that took time."""

    track: Track
    name: str
    category: Category
    start_us: int
    end_us: int | None
    """Null for what had not ended, as far as is known: it lasts to the end of the trace."""
    depth: int | None = None
    """How deep it stands among those around it, where that is known: of two that know it, only the deeper one can be
    inside the other. What does not know it stands where its times put it."""
    family: str | None = None
    """Whose it is, where that is known: what belongs to different ones is never inside each other."""
    finished: bool = True
    """Whether its end was seen. One that was not can still have an end: that of what it was part of."""
    failed: bool = False
    facts: dict[str, Fact] = msgspec.field(default_factory=dict)
    """Ids, models, tokens, codes: what helps to find it again in the evidence."""


class Instant(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Something that happened at one moment."""

    track: Track
    name: str
    category: Category
    at_us: int
    facts: dict[str, Fact] = msgspec.field(default_factory=dict)


class Counter(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Figures of a process at one moment."""

    pid: int | None
    name: str
    unit: str
    at_us: int
    figures: dict[str, float]
    """By what they are called; one that needs no name beside that of the counter has an empty one."""


Part = Slice | Instant | Counter


class Trace(msgspec.Struct, kw_only=True):
    """Everything of a run that has a time."""

    run_id: str
    processes: list[TraceProcess]
    """In the order in which they are to be shown; every process of a track or a counter is among them."""
    slices: list[Slice] = msgspec.field(default_factory=list)
    instants: list[Instant] = msgspec.field(default_factory=list)
    counters: list[Counter] = msgspec.field(default_factory=list)
    notes: list[str] = msgspec.field(default_factory=list)
    """What is missing, and why."""

    @property
    def start_us(self) -> int:
        """The first moment that is known; 0 where none is."""
        return min(chain((slice_.start_us for slice_ in self.slices), self._moments()), default=0)

    @property
    def end_us(self) -> int:
        """The last moment that is known: what had not ended lasts until then."""
        ends = (max(slice_.start_us, slice_.end_us or 0) for slice_ in self.slices)
        return max(chain(ends, self._moments()), default=0)

    def _moments(self) -> Iterator[int]:
        yield from (instant.at_us for instant in self.instants)
        yield from (counter.at_us for counter in self.counters)


def us_of(milliseconds: float) -> int:
    """Milliseconds since 1970 as microseconds, within what can be counted."""
    return round(min(max(milliseconds, 0.0), LATEST_US / 1000) * 1000)


def began_us(end_ms: float, duration_ms: float | None) -> int | None:
    """When it began what took that long; None where the duration is none."""
    if duration_ms is None or not 0 <= duration_ms <= LONGEST_MS:
        return None
    return us_of(end_ms - duration_ms)


def label(text: str) -> str:
    """Return a name or fact chosen by others as it may stand in a trace: on one line, of bounded length."""
    return sanitize(text, max_length=MAX_TEXT)
