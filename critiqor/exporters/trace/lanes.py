"""Arrange slices in lanes: within a lane, slices are nested or disjoint, but never overlap partially.

Viewers require that of a thread. Each slice goes into the first lane with room for it. Clocks have a resolution of one
millisecond, so a slice that exceeds the slice around it, or reaches into the next one, by no more than that is cut.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from critiqor.model.trace import Slice

GRAIN_US = 1000
"""Maximum error of a time with a resolution of one millisecond."""
NESTING_LANES = 64
"""Maximum number of lanes with nested slices. In further lanes, slices follow each other without nesting."""
_NEIGHBOURS = 16
"""Maximum number of slices within `GRAIN_US` of a time that are compared."""


class Placed(NamedTuple):
    """A slice with its lane and the times it is drawn with."""

    slice: Slice
    lane: int
    """Counted from 1."""
    start_us: int
    end_us: int


class _Bar:
    """A slice for which a lane is being searched."""

    __slots__ = ("depth", "end", "family", "slice", "start")

    def __init__(self, slice_: Slice, end_us: int) -> None:
        self.slice = slice_
        self.depth = slice_.depth
        self.family = slice_.family
        self.start = slice_.start_us
        self.end = max(self.start, end_us if slice_.end_us is None else slice_.end_us)


def lay_out(slices: Iterable[Slice], end_us: int) -> list[Placed]:
    """Arrange the slices of one track in lanes, ordered by start, outer ones first.

    `end_us` is the end of slices without one.
    """
    # Of two slices with the same times, the one that comes later is the outer one.
    bars = [_Bar(slice_, end_us) for slice_ in slices][::-1]
    bars.sort(key=_outer_first)
    _settle(bars)
    bars.sort(key=_outer_first)
    lanes = _Lanes()
    placed = []
    for bar in bars:
        lane = lanes.take(bar)
        placed.append(Placed(bar.slice, lane, bar.start, bar.end))
    return placed


def _outer_first(bar: _Bar) -> tuple[int, int, int]:
    return (bar.start, -bar.end, bar.depth or 0)


def _may_be_inside(inner: _Bar, outer: _Bar) -> bool:
    if inner.depth is not None and outer.depth is not None and inner.depth <= outer.depth:
        return False
    return inner.family is None or outer.family is None or inner.family == outer.family


def _settle(bars: Sequence[_Bar]) -> None:
    """Cut slices that exceed another one by up to a grain.

    They are processed from last to first, so that each is compared with later ones that are already settled.
    """
    starts = [bar.start for bar in bars]
    for place in range(len(bars) - 1, -1, -1):
        bar = bars[place]
        for other in reversed(bars[place + 1 : place + 1 + _NEIGHBOURS]):
            if _began_too_early(bar, other):
                bar.start, bar.end = other.start, min(bar.end, other.end)
                break
        first = bisect_left(starts, bar.end - GRAIN_US, lo=place + 1)
        for other in bars[first : first + _NEIGHBOURS]:
            if _ended_too_late(bar, other):
                bar.end = other.start
                break


def _began_too_early(bar: _Bar, outer: _Bar) -> bool:
    """Return whether a slice is inside another one that starts up to a grain later."""
    early = outer.start - bar.start
    if not 0 <= early <= min(GRAIN_US, bar.end - outer.start) or not _may_be_inside(bar, outer):
        return False
    if _may_be_inside(outer, bar):
        return bar.end < outer.end
    return bar.end <= outer.end + GRAIN_US


def _ended_too_late(bar: _Bar, following: _Bar) -> bool:
    """Return whether a slice ended before a following one started, although their times overlap by up to a grain."""
    over = bar.end - following.start
    if not bar.start < following.start < bar.end < following.end or over > GRAIN_US:
        return False
    return over <= following.end - bar.end or not _may_be_inside(following, bar)


class _Lanes:
    """The open slices of each lane, while slices are added by start."""

    def __init__(self) -> None:
        self._nesting: list[list[_Bar]] = []
        """The open slices of each lane, the innermost last."""
        self._busy: list[tuple[int, int]] = []
        """Ends of slices in further lanes, with their lanes."""
        self._free: list[int] = []
        self._further = NESTING_LANES

    def take(self, bar: _Bar) -> int:
        """Put a slice into the first lane with room and return the lane; its end is cut if that makes it fit."""
        for lane, around in enumerate(self._nesting, 1):
            while around and around[-1].end <= bar.start:
                around.pop()
            if around:
                innermost = around[-1]
                if bar.end - innermost.end > GRAIN_US or not _may_be_inside(bar, innermost):
                    continue
                bar.end = min(bar.end, innermost.end)
                # A slice without depth and family takes those of the slice around it.
                bar.depth = innermost.depth if bar.depth is None else bar.depth
                bar.family = innermost.family if bar.family is None else bar.family
            around.append(bar)
            return lane
        if len(self._nesting) < NESTING_LANES:
            self._nesting.append([bar])
            return len(self._nesting)
        return self._further_lane(bar)

    def _further_lane(self, bar: _Bar) -> int:
        while self._busy and self._busy[0][0] <= bar.start:
            heapq.heappush(self._free, heapq.heappop(self._busy)[1])
        if self._free:
            lane = heapq.heappop(self._free)
        else:
            self._further += 1
            lane = self._further
        heapq.heappush(self._busy, (bar.end, lane))
        return lane
