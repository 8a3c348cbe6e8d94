"""Closed spans, how long the spans inside one take together, and the slowest of many."""

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
    """Its span id, or its name where it has none."""
    parent: str | None
    start: float
    end: float
    failed: bool
    kind: NodeKind = "span"

    @property
    def duration(self) -> float:
        return self.end - self.start


def closed_span(record: Line) -> ClosedSpan:
    """The span that a line ends, or the request that it tells of.

    A span began as long before its end as it took: some starts are written down only when all is over. The time of a
    request is its start.
    """
    moment, duration = moment_ms(record), record.duration_ms or 0.0
    key = record.span_id or record.name
    if isinstance(record, ProviderCall):
        failed = record.ok is False
        return ClosedSpan(record.name, detail_of(record), key, None, moment, moment + duration, failed, "provider")
    failed = isinstance(record, SpanError)
    return ClosedSpan(record.name, detail_of(record), key, record.parent_span_id, moment - duration, moment, failed)


def covered(intervals: Iterable[tuple[float, float]]) -> float:
    """How long at least one of these intervals goes on."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(intervals):
        if end > reached:
            total += end - max(start, reached)
            reached = end
    return total


def descendants(key: str, records: Sequence[Line], most: int) -> list[Line]:
    """The spans inside a span, of records in the order of their ends, in which parents come after their children."""
    family = {key}
    found: list[Line] = []
    for record in reversed(records):
        if record.parent_span_id in family and len(found) < most:
            family.add(record.span_id or record.name)
            found.append(record)
    return found


class Slowest(Generic[_Item]):
    """The few items with the largest figure, whatever the order in which they come."""

    __slots__ = ("_heap", "_most", "_numbers", "floor")

    def __init__(self, most: int) -> None:
        self._most = most
        self._heap: list[tuple[float, Any, int, _Item]] = []
        self._numbers = count()
        self.floor = 0.0
        """What is below needs no offering."""

    def offer(self, figure: float, order: Any, item: _Item) -> None:
        """`order` decides between equal figures, so that it is the same ones in every order of lines."""
        entry = (figure, order, next(self._numbers), item)
        if len(self._heap) < self._most:
            heapq.heappush(self._heap, entry)
        else:
            heapq.heappushpop(self._heap, entry)
        if len(self._heap) == self._most:
            self.floor = self._heap[0][0]

    def items(self) -> list[_Item]:
        """The largest first."""
        return [item for *_, item in sorted(self._heap, key=lambda entry: entry[:3], reverse=True)]
