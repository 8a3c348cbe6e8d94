"""The time axis of a chart: maps moments to terminal columns and shortens long idle times to one column."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

MIN_GAP = 0.25
"""An idle time of at least this share of the total busy time is shortened."""
COLUMNS_PER_GAP = 8
"""Minimum chart columns per shortened gap; with more gaps the chart would be unreadable."""


class Interval(NamedTuple):
    """A stretch of time, in microseconds."""

    start_us: int
    end_us: int


class Axis:
    """A time axis of `width` columns."""

    def __init__(self, busy: Iterable[Interval], width: int) -> None:
        """Span the axis from the start of the first to the end of the last busy interval."""
        covered = _merge(busy)
        self.width = width
        self.start_us = covered[0].start_us if covered else 0
        self.end_us = covered[-1].end_us if covered else 0
        self.gaps = _long_gaps(covered, width // COLUMNS_PER_GAP)
        """The shortened idle times, in order of time."""
        self._starts, self._origins, self._scale = self._scale_stretches()

    def _scale_stretches(self) -> tuple[list[int], list[float], float]:
        """Return where each stretch between gaps starts, in time and in columns, and the columns per microsecond."""
        shortened = sum(gap.end_us - gap.start_us for gap in self.gaps)
        drawn = max(1, self.end_us - self.start_us - shortened)
        scale = (self.width - len(self.gaps)) / drawn
        starts, origins, column = [self.start_us], [0.0], 0.0
        for gap in self.gaps:
            column += (gap.start_us - starts[-1]) * scale + 1
            starts.append(gap.end_us)
            origins.append(column)
        return starts, origins, scale

    def column(self, at_us: int) -> int:
        """Return the column of a moment, from 0; a moment outside the axis gets the column at its edge."""
        index = max(0, bisect_right(self._starts, at_us) - 1)
        column = int(self._origins[index] + (at_us - self._starts[index]) * self._scale)
        if index < len(self.gaps):
            gap = self._gap_column(index)
            column = gap if at_us > self.gaps[index].start_us else min(column, gap - 1)
        return min(max(0, column), self.width - 1)

    def gap_columns(self) -> list[int]:
        """Return the columns of the gaps."""
        return [self._gap_column(index) for index in range(len(self.gaps))]

    def _gap_column(self, index: int) -> int:
        return int(self._origins[index + 1] - 1)


def _merge(intervals: Iterable[Interval]) -> list[Interval]:
    """Merge overlapping intervals, in order of time."""
    merged: list[Interval] = []
    for interval in sorted(intervals):
        if merged and interval.start_us <= merged[-1].end_us:
            merged[-1] = Interval(merged[-1].start_us, max(merged[-1].end_us, interval.end_us))
        else:
            merged.append(interval)
    return merged


def _long_gaps(covered: list[Interval], max_gaps: int) -> list[Interval]:
    """Return the longest gaps between intervals, in order of time."""
    busy = sum(interval.end_us - interval.start_us for interval in covered)
    gaps = [Interval(one.end_us, other.start_us) for one, other in pairwise(covered)]
    long = [gap for gap in gaps if 0 < MIN_GAP * busy <= gap.end_us - gap.start_us]
    return sorted(sorted(long, key=lambda gap: gap.start_us - gap.end_us)[:max_gaps])
