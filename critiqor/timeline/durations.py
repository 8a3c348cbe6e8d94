"""Durations: their count, total, quantiles and maximum in bounded memory, and the time that intervals cover."""

from __future__ import annotations

import struct
import sys
from array import array
from collections import Counter
from collections.abc import Iterable
from math import ceil
from typing import NamedTuple

EXACT = 512
"""Number of durations up to which quantiles are exact; beyond it they are computed from buckets."""
_HIGH_HALF = 1 if sys.byteorder == "little" else 0
"""Index of the upper half of a single-precision number: sign, exponent and seven bits. Read as an integer, it is a
bucket of a logarithmic scale with 128 buckets per factor of two; the middle of one is off by less than 1%."""


class DurationStats(NamedTuple):
    """Statistics of durations in milliseconds."""

    samples: int
    total: float
    p50: float
    p95: float
    max: float


class Durations:
    """Collects durations. Callers append to `pending` directly, because they do so for every second line of a file.

    Neither the order of the durations nor the moments when `fold` is called change the result.
    """

    __slots__ = ("_buckets", "_count", "_longest", "_total", "pending")

    def __init__(self) -> None:
        self.pending: list[float] = []
        self._buckets: Counter[int] = Counter()
        self._count = 0
        self._total = 0.0
        self._longest = 0.0

    @property
    def samples(self) -> int:
        return self._count + len(self.pending)

    def fold(self) -> None:
        """Move pending durations into logarithmic buckets if there are many."""
        if len(self.pending) > EXACT:
            self._fold()

    def _fold(self) -> None:
        values = self.pending
        self._count += len(values)
        self._total += sum(values)
        self._longest = max(self._longest, *values)
        # These calls loop in C, not in the interpreter.
        self._buckets.update(array("H", array("f", values).tobytes())[_HIGH_HALF::2])
        values.clear()

    def stats(self) -> DurationStats:
        """Return the statistics; all zero if there are no durations."""
        if self._count:
            if self.pending:
                self._fold()
            middle, high = (self._quantile(share) for share in (0.5, 0.95))
            return DurationStats(self._count, round(self._total, 3), middle, high, self._longest)
        values = sorted(self.pending)
        if not values:
            return DurationStats(0, 0.0, 0.0, 0.0, 0.0)
        middle, high = (round(values[_rank(share, len(values))], 3) for share in (0.5, 0.95))
        return DurationStats(len(values), round(sum(values), 3), middle, high, values[-1])

    def _quantile(self, share: float) -> float:
        left = _rank(share, self._count)
        for bucket, count in sorted(self._buckets.items()):
            left -= count
            if left < 0:
                return round(min(_middle(bucket), self._longest), 3)
        raise AssertionError("internal error: the duration counts are inconsistent")


def covered_ms(intervals: Iterable[tuple[float, float]]) -> float:
    """Return the total duration of these intervals, overlaps counted once."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(intervals):
        if end > reached:
            total += end - max(start, reached)
            reached = end
    return total


def _middle(bucket: int) -> float:
    """Return the value in the middle of a bucket; bucket 0 is exactly zero."""
    middle: float = struct.unpack("<f", struct.pack("<HH", 0x8000, bucket))[0]
    return middle if bucket else 0.0


def _rank(share: float, count: int) -> int:
    """Return the index of a quantile in the sorted values, by nearest rank."""
    return ceil(share * count) - 1
