"""Spans of a timeline file: those that have ended, and the time that the spans inside an open span cover.

A timeline pairs the start and the end of a span by its span id. The recorder's events are paired in `critiqor.spans`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from critiqor.model.timeline import NodeKind
from critiqor.timeline.durations import covered_ms
from critiqor.timeline.reader.records import Line, ProviderCall, SpanError, moment_ms

Inside = list[Any]
"""The spans inside an open span: whether any of them overlap, the milliseconds that older ones cover, then the end and
the duration of each later one. A plain list, because very many are created."""
OVERLAPPING, COVERED, ENDS = range(3)


class ClosedSpan(NamedTuple):
    """A span, request or tool call that has ended; times in milliseconds since 1970."""

    name: str
    detail: str | None
    key: str
    """Its span id, or its name if it has none."""
    parent: str | None
    start: float
    end: float
    failed: bool
    kind: NodeKind = "span"

    @property
    def duration(self) -> float:
        return self.end - self.start


def closed_span(record: Line) -> ClosedSpan:
    """Return the span that a line ends, or the provider request that it describes.

    The start of a span is computed from its end and duration, because some start lines are written only after the end.
    The timestamp of a request is its start.
    """
    moment, duration = moment_ms(record), record.duration_ms or 0.0
    key = record.span_id or record.name
    if isinstance(record, ProviderCall):
        failed = record.ok is False
        return ClosedSpan(record.name, detail_of(record), key, None, moment, moment + duration, failed, "provider")
    failed = isinstance(record, SpanError)
    return ClosedSpan(record.name, detail_of(record), key, record.parent_span_id, moment - duration, moment, failed)


def covered_by_inner_spans(inside: Inside) -> float:
    """Return the milliseconds that the spans inside an open span cover, overlaps counted once."""
    durations: list[float] = inside[ENDS + 1 :: 2]
    covered: float = inside[COVERED]
    if not inside[OVERLAPPING]:
        return covered + sum(durations)
    ends = [moment.timestamp() * 1000 for moment in inside[ENDS::2]]
    return covered + covered_ms((end - duration, end) for end, duration in zip(ends, durations, strict=True))


def detail_of(record: Line) -> str | None:
    """Return which of the spans with the same name this span is: its stage, plugin or model."""
    attributes = record.attributes
    if attributes is None:
        return None
    return attributes.stage or attributes.trace_name or attributes.plugin_id or attributes.model
