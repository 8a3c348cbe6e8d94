"""Spans and span events of OpenTelemetry. Times are microseconds since 1970."""

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


class SpanLink(NamedTuple):
    """A span of another trace that a span belongs to."""

    trace_id: str
    span_id: str


class OtlpSpan(msgspec.Struct, kw_only=True):
    """A span with its place in the trace and its attributes."""

    trace_id: str
    """32 hexadecimal digits."""
    id: str
    """16 hexadecimal digits."""
    parent: str | None
    """Id of the parent span in the same trace; None for a root."""
    name: str
    kind: Literal["internal", "client"]
    """`client` for a request to another service."""
    start_us: int
    end_us: int
    attributes: Attributes
    events: list[SpanEvent]
    link: SpanLink | None = None
    """The span of the run; None for that span itself, and for spans that have a parent."""
    failed: bool = False
    message: str | None = None
    """Error message; None if there is none or content is not exported."""
