"""The time axis of a chart: columns of the terminal, with long times in which nothing happened squeezed into one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

LEAST_GAP = 0.25
"""A time in which nothing happened is squeezed if it is longer than this share of all in which something did."""
COLUMNS_A_GAP = 8
"""A chart of so many columns may have one squeezed gap, of twice as many two: more would tear it into pieces."""


class Interval(NamedTuple):
    """A piece of time, in microseconds."""

    start_us: int
    end_us: int


class Axis:
    """Where in `width` columns a moment stands."""

    def __init__(self, busy: Iterable[Interval], width: int) -> None:
        """`busy` is when something happened; what lies between its first and its last moment is drawn."""
        covered = _joined(busy)
        self.width = width
        self.start_us = covered[0].start_us if covered else 0
        self.end_us = covered[-1].end_us if covered else 0
        self.gaps = _long_gaps(covered, width // COLUMNS_A_GAP)
        """What is squeezed, in order of time."""
        self._starts, self._origins, self._scale = self._pieces()

    def _pieces(self) -> tuple[list[int], list[float], float]:
        """Where each stretch between gaps begins, in time and in columns, and how many columns a microsecond takes."""
        squeezed = sum(gap.end_us - gap.start_us for gap in self.gaps)
        drawn = max(1, self.end_us - self.start_us - squeezed)
        scale = (self.width - len(self.gaps)) / drawn
        starts, origins, column = [self.start_us], [0.0], 0.0
        for gap in self.gaps:
            column += (gap.start_us - starts[-1]) * scale + 1
            starts.append(gap.end_us)
            origins.append(column)
        return starts, origins, scale

    def column(self, at_us: int) -> int:
        """The column of a moment, from 0; what lies outside is at the edge, and what lies in a gap is in its column."""
        place = max(0, bisect_right(self._starts, at_us) - 1)
        column = int(self._origins[place] + (at_us - self._starts[place]) * self._scale)
        if place < len(self.gaps):
            gap = self._gap_column(place)
            column = gap if at_us > self.gaps[place].start_us else min(column, gap - 1)
        return min(max(0, column), self.width - 1)

    def gap_columns(self) -> list[int]:
        """The columns that stand for gaps."""
        return [self._gap_column(place) for place in range(len(self.gaps))]

    def _gap_column(self, place: int) -> int:
        return int(self._origins[place + 1] - 1)


def _joined(intervals: Iterable[Interval]) -> list[Interval]:
    """Times that overlap as one, in order."""
    joined: list[Interval] = []
    for interval in sorted(intervals):
        if joined and interval.start_us <= joined[-1].end_us:
            joined[-1] = Interval(joined[-1].start_us, max(joined[-1].end_us, interval.end_us))
        else:
            joined.append(interval)
    return joined


def _long_gaps(covered: list[Interval], most: int) -> list[Interval]:
    """The longest ones, in order."""
    busy = sum(interval.end_us - interval.start_us for interval in covered)
    gaps = [Interval(one.end_us, other.start_us) for one, other in pairwise(covered)]
    long = [gap for gap in gaps if 0 < LEAST_GAP * busy <= gap.end_us - gap.start_us]
    return sorted(sorted(long, key=lambda gap: gap.start_us - gap.end_us)[:most])
