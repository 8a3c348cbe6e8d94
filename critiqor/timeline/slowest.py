"""The slowest items of a stream, such as spans, requests or turns, in bounded memory."""

from __future__ import annotations

import heapq
from itertools import count
from typing import Any, Generic, TypeVar

_Item = TypeVar("_Item")


class Slowest(Generic[_Item]):
    """Keeps the items with the largest values, usually durations; the order of the offers does not matter."""

    __slots__ = ("_heap", "_limit", "_numbers", "floor")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._heap: list[tuple[float, Any, int, _Item]] = []
        self._numbers = count()
        self.floor = 0.0
        """The smallest value worth offering."""

    def offer(self, value: float, order: Any, item: _Item) -> None:
        """Keep the item if it is one of the slowest; `order` breaks ties, so that the result is deterministic."""
        entry = (value, order, next(self._numbers), item)
        if len(self._heap) < self._limit:
            heapq.heappush(self._heap, entry)
        else:
            heapq.heappushpop(self._heap, entry)
        if len(self._heap) == self._limit:
            self.floor = self._heap[0][0]

    def items(self) -> list[_Item]:
        """Return the slowest items, the slowest first."""
        return [item for *_, item in sorted(self._heap, key=lambda entry: entry[:3], reverse=True)]
