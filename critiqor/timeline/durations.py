"""Count, total, quantiles and maximum of any number of durations, in bounded space."""

from __future__ import annotations

import struct
import sys
from array import array
from collections import Counter
from math import ceil
from typing import NamedTuple

EXACT = 512
"""Up to so many durations the quantiles are exact; beyond, they come from the buckets."""
_HIGH_HALF = 1 if sys.byteorder == "little" else 0
"""Where the upper half of a single-precision number stands: its sign, its exponent and seven digits. As a number it is
the bucket of a logarithmic scale, 128 for each factor of two; the middle of one is wrong by less than one percent."""


class Figures(NamedTuple):
    """What is told of many durations, in milliseconds."""

    number: int
    total: float
    p50: float
    p95: float
    longest: float


class Durations:
    """Collects durations. `pending` is appended to directly, because it happens for every second line of a file.

    The order in which they come makes no difference, and neither does when `fold` is called.
    """

    __slots__ = ("_buckets", "_count", "_longest", "_total", "pending")

    def __init__(self) -> None:
        self.pending: list[float] = []
        self._buckets: Counter[int] = Counter()
        self._count = 0
        self._total = 0.0
        self._longest = 0.0

    def fold(self) -> None:
        """Turn what is pending into counts of logarithmic buckets, if it is much."""
        if len(self.pending) > EXACT:
            self._fold()

    def _fold(self) -> None:
        values = self.pending
        self._count += len(values)
        self._total += sum(values)
        self._longest = max(self._longest, *values)
        # All of it runs outside the interpreter's loop.
        self._buckets.update(array("H", array("f", values).tobytes())[_HIGH_HALF::2])
        values.clear()

    def figures(self) -> Figures:
        """What is known; zero for everything where nothing was collected."""
        if self._count:
            if self.pending:
                self._fold()
            middle, high = (self._quantile(share) for share in (0.5, 0.95))
            return Figures(self._count, round(self._total, 3), middle, high, self._longest)
        values = sorted(self.pending)
        if not values:
            return Figures(0, 0.0, 0.0, 0.0, 0.0)
        middle, high = (round(values[_rank(share, len(values))], 3) for share in (0.5, 0.95))
        return Figures(len(values), round(sum(values), 3), middle, high, values[-1])

    def _quantile(self, share: float) -> float:
        left = _rank(share, self._count)
        for bucket, count in sorted(self._buckets.items()):
            left -= count
            if left < 0:
                return round(min(_middle(bucket), self._longest), 3)
        raise AssertionError("the buckets hold every duration that was counted")


def _middle(bucket: int) -> float:
    """The value in the middle of a bucket; nothing is nothing."""
    middle: float = struct.unpack("<f", struct.pack("<HH", 0x8000, bucket))[0]
    return middle if bucket else 0.0


def _rank(share: float, count: int) -> int:
    """The place of a quantile in the sorted values: the nearest rank."""
    return ceil(share * count) - 1
