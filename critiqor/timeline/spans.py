"""Spans of a timeline file that have ended, the time they cover, and the slowest of them.

A timeline pairs the start and the end of a span by its span id. The recorder's events are paired in `critiqor.spans`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any, Generic, NamedTuple, TypeVar

from critiqor.model.timeline import NodeKind
from critiqor.timeline.reader.records import Line, ProviderCall, SpanError, detail_of, moment_ms

_Item = TypeVar("_Item")


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


def covered(intervals: Iterable[tuple[float, float]]) -> float:
    """Return the total time covered by at least one of these intervals."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(intervals):
        if end > reached:
            total += end - max(start, reached)
            reached = end
    return total


def descendants(key: str, records: Sequence[Line], limit: int) -> list[Line]:
    """Return the spans inside a span; `records` are in the order of their ends, so parents come after children."""
    family = {key}
    found: list[Line] = []
    for record in reversed(records):
        if record.parent_span_id in family and len(found) < limit:
            family.add(record.span_id or record.name)
            found.append(record)
    return found


class Slowest(Generic[_Item]):
    """Keeps the items with the largest values; the order in which they are offered does not matter."""

    __slots__ = ("_heap", "_limit", "_numbers", "floor")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._heap: list[tuple[float, Any, int, _Item]] = []
        self._numbers = count()
        self.floor = 0.0
        """The smallest value worth offering."""

    def offer(self, value: float, order: Any, item: _Item) -> None:
        """Keep the item if its value is large enough; `order` breaks ties, so that the result is deterministic."""
        entry = (value, order, next(self._numbers), item)
        if len(self._heap) < self._limit:
            heapq.heappush(self._heap, entry)
        else:
            heapq.heappushpop(self._heap, entry)
        if len(self._heap) == self._limit:
            self.floor = self._heap[0][0]

    def items(self) -> list[_Item]:
        """Return the items, the largest first."""
        return [item for *_, item in sorted(self._heap, key=lambda entry: entry[:3], reverse=True)]
