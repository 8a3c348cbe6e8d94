"""Spans: what tracing systems know a run by. All times are whole microseconds since 1970."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

Value = str | int | float | bool | list[str]
Attributes = dict[str, Value]


class SpanEvent(NamedTuple):
    """Something that happened at one moment of a span."""

    name: str
    at_us: int
    attributes: Attributes


class Span(msgspec.Struct, kw_only=True):
    """Something that took time, and what it was part of."""

    id: str
    """16 hexadecimal digits."""
    parent: str | None
    name: str
    kind: Literal["internal", "client"]
    """`client` for what was asked of somebody else."""
    start_us: int
    end_us: int
    attributes: Attributes
    events: list[SpanEvent]
    failed: bool = False
    message: str | None = None
    """What went wrong, in words; null where content is not wanted."""
