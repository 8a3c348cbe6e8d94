"""Split of a turn into parts: preparation, provider, tools, retries, and time that nothing accounts for."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Literal, NamedTuple

from critiqor.model.timeline import TurnSplit, UnattributedGap

MAX_GAPS = 5
SHORT_PAUSE_MS = 250.0
"""Longest pause before or after a tool call that counts as OpenClaw's own overhead, which is about ten milliseconds. A
pause between two model calls is never taken for overhead: a tool that was not recorded may have run."""


class Interval(NamedTuple):
    """A model call or tool call; times in milliseconds since 1970."""

    start: float
    end: float
    kind: Literal["provider", "tool"]
    label: str
    failed: bool = False


class Splitter:
    """Adds up the intervals of a turn. Time between two intervals is unattributed unless it is very short.

    Intervals can be added in portions, the earlier ones first, so that a turn of any length needs little memory; an
    interval that reaches back into an earlier portion is cut.
    """

    def __init__(self) -> None:
        self._parts = {"provider": 0.0, "tool": 0.0, "before": 0.0, "retry": 0.0, "between": 0.0, "unknown": 0.0}
        self._first: Interval | None = None
        self._last: Interval | None = None
        self._has_request = False
        """Whether there was a request yet: time before the first one is its preparation."""
        self._early: list[UnattributedGap] = []
        """Gaps before the first request; they are unattributed if no request follows."""
        self._gaps: list[UnattributedGap] = []
        """The largest unattributed gaps."""

    def add(self, intervals: Iterable[Interval]) -> None:
        """Add intervals."""
        for piece in _cut_into_pieces(intervals):
            self._add(piece)

    def split(self, start: float, end: float, *, ended: bool) -> TurnSplit:
        """Return the parts of the turn from its start to its end."""
        first, last = self._first, self._last
        leading = (first.start if first is not None else end) - start
        trailing = end - last.end if last is not None else 0.0
        parts = dict(self._parts)
        gaps = list(self._gaps)
        if self._has_request:
            parts["before"] += leading
        else:
            gaps += [*self._early, _gap(leading, None, first)]
            parts["unknown"] += parts["before"] + leading
            parts["before"] = 0.0
        after = trailing if self._has_request and ended else 0.0
        if not after:
            gaps.append(_gap(trailing, last, None))
            parts["unknown"] += trailing
        known = [gap for gap in gaps if gap.duration_ms > 0]
        return TurnSplit(
            before_provider_ms=round(parts["before"], 3),
            with_provider_ms=round(parts["provider"], 3),
            in_tools_ms=round(parts["tool"], 3),
            retrying_ms=round(parts["retry"], 3),
            between_ms=round(parts["between"], 3),
            after_ms=round(after, 3),
            unattributed_ms=round(parts["unknown"], 3),
            gaps=_largest(known),
        )

    def _add(self, piece: Interval) -> None:
        last = self._last
        if last is None:
            self._first = piece
        elif piece.end <= last.end:
            return
        elif piece.start > last.end:
            self._pause(last, piece)
        else:
            piece = piece._replace(start=last.end)
        self._has_request = self._has_request or piece.kind == "provider"
        self._parts[piece.kind] += piece.end - piece.start
        self._last = piece

    def _pause(self, last: Interval, piece: Interval) -> None:
        """Account for the time between two intervals."""
        pause = piece.start - last.end
        if not self._has_request:
            self._parts["before"] += pause
            self._early = _largest([*self._early, _gap(pause, last, piece)])
        elif last.kind == piece.kind == "provider" and last.failed:
            self._parts["retry"] += pause
        elif pause <= SHORT_PAUSE_MS and not last.kind == piece.kind == "provider":
            self._parts["between"] += pause
        else:
            self._parts["unknown"] += pause
            self._gaps = _largest([*self._gaps, _gap(pause, last, piece)])


def split_turn(start: float, end: float, intervals: Iterable[Interval], *, ended: bool) -> TurnSplit:
    """Split a turn with these intervals into its parts."""
    splitter = Splitter()
    splitter.add(intervals)
    return splitter.split(start, end, ended=ended)


def _gap(duration: float, previous: Interval | None, following: Interval | None) -> UnattributedGap:
    after = previous.label if previous is not None else "the start"
    before = following.label if following is not None else "the end"
    return UnattributedGap(duration_ms=round(duration, 3), after=after, before=before)


def _largest(gaps: list[UnattributedGap]) -> list[UnattributedGap]:
    return sorted(gaps, key=lambda gap: gap.duration_ms, reverse=True)[:MAX_GAPS]


def _cut_into_pieces(intervals: Iterable[Interval]) -> list[Interval]:
    """Return pieces that do not overlap; where both kinds overlap, the time counts for the provider."""
    ordered = sorted(intervals)
    requests = _merge(interval for interval in ordered if interval.kind == "provider")
    pieces = list(requests)
    first = 0
    for tool in _merge(interval for interval in ordered if interval.kind == "tool"):
        while first < len(requests) and requests[first].end <= tool.start:
            first += 1
        start = tool.start
        for request in islice(requests, first, None):
            if request.start >= tool.end:
                break
            if request.start > start:
                pieces.append(tool._replace(start=start, end=request.start))
            start = request.end
        if start < tool.end:
            pieces.append(tool._replace(start=start))
    return sorted(pieces)


def _merge(intervals: Iterable[Interval]) -> list[Interval]:
    """Merge overlapping intervals of one kind; a merged one failed if the interval that ended last did."""
    merged: list[Interval] = []
    for interval in intervals:
        if merged and interval.start <= merged[-1].end:
            last = max(merged[-1], interval, key=lambda each: each.end)
            merged[-1] = last._replace(start=merged[-1].start)
        else:
            merged.append(interval)
    return merged
