"""One span of an agent run: a start and its end."""

from __future__ import annotations

from typing import Generic, Literal, TypeVar

import msgspec

SpanKind = Literal["agent", "turn", "model", "tool", "memory", "compaction"]
"""An attempt of an agent run, a turn, a model call, a tool call, a memory lookup, a compaction."""
Data = TypeVar("Data")


class Span(msgspec.Struct, Generic[Data], eq=False, gc=False):
    """A start, together with its end once that is known. Times are microseconds since 1970."""

    kind: SpanKind
    event_id: str
    """The event of the start, or of the end if no start was recorded."""
    seen_us: int
    """When the start was recorded."""
    start_us: int
    """When it started: the duration reported at the end can show that it started before it was recorded."""
    floor_us: int = 0
    """The earliest possible start."""
    end_us: int | None = None
    """When it ended; None while it is open, and for a span that may have lasted until the end of the recording."""
    has_start: bool = True
    """Whether an event recorded its start."""
    has_end: bool = False
    """Whether an event recorded its end."""
    is_inner: bool = False
    """Whether another tool call made this tool call."""
    outer: Span[Data] | None = None
    """The tool call that made this one, if that is open."""
    data: Data | None = None
    """What the user of the pairer attaches to it."""
