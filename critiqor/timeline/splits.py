"""Where the time of one turn went, from what is known to have gone on in it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Literal, NamedTuple

from critiqor.model.timeline import TurnSplit, UnattributedGap
from critiqor.timeline.spans import ClosedSpan

MOST_GAPS = 5


class Stretch(NamedTuple):
    """Something that went on for a while; times in milliseconds since 1970."""

    start: float
    end: float
    kind: Literal["provider", "tool"]
    label: str
    failed: bool = False


def split_of(turn: ClosedSpan, stretches: Iterable[Stretch], *, ended: bool) -> TurnSplit:
    """The parts of a turn. What lies between a request and a tool, or between two of either, is known of nobody."""
    pieces = _pieces(turn, stretches)
    asked = next((index for index, piece in enumerate(pieces) if piece.kind == "provider"), None)
    parts = {"provider": 0.0, "tool": 0.0, "before": 0.0, "retry": 0.0, "after": 0.0, "unknown": 0.0}
    gaps = []
    moment = turn.start
    for index, piece in enumerate([*pieces, None]):
        until = turn.end if piece is None else piece.start
        if until > moment:
            previous = pieces[index - 1] if index else None
            part = _meaning(previous, piece, asked is not None and index <= asked, asked is not None and ended)
            parts[part] += until - moment
            if part == "unknown":
                gaps.append(_gap(until - moment, previous, piece))
        if piece is not None:
            parts[piece.kind] += piece.end - piece.start
            moment = piece.end
    return TurnSplit(
        before_provider_ms=round(parts["before"], 3),
        with_provider_ms=round(parts["provider"], 3),
        in_tools_ms=round(parts["tool"], 3),
        retrying_ms=round(parts["retry"], 3),
        after_ms=round(parts["after"], 3),
        unattributed_ms=round(parts["unknown"], 3),
        gaps=sorted(gaps, key=lambda gap: gap.duration_ms, reverse=True)[:MOST_GAPS],
    )


def _meaning(previous: Stretch | None, following: Stretch | None, before: bool, known_end: bool) -> str:
    """Which part the time between two stretches belongs to."""
    if before:
        return "before"
    if following is None:
        return "after" if known_end else "unknown"
    if previous is not None and previous.kind == following.kind == "provider" and previous.failed:
        return "retry"
    return "unknown"


def _gap(duration: float, previous: Stretch | None, following: Stretch | None) -> UnattributedGap:
    after = previous.label if previous is not None else "the start"
    before = following.label if following is not None else "the end"
    return UnattributedGap(duration_ms=round(duration, 3), after=after, before=before)


def _pieces(turn: ClosedSpan, stretches: Iterable[Stretch]) -> list[Stretch]:
    """The stretches within the turn as pieces that follow each other; where both go on, it is the provider's time."""
    inside = sorted(
        stretch._replace(start=max(stretch.start, turn.start), end=min(stretch.end, turn.end))
        for stretch in stretches
        if stretch.end > turn.start and stretch.start < turn.end
    )
    asked = _joined(stretch for stretch in inside if stretch.kind == "provider")
    pieces = list(asked)
    first = 0
    for tool in _joined(stretch for stretch in inside if stretch.kind == "tool"):
        while first < len(asked) and asked[first].end <= tool.start:
            first += 1
        start = tool.start
        for request in islice(asked, first, None):
            if request.start >= tool.end:
                break
            if request.start > start:
                pieces.append(tool._replace(start=start, end=request.start))
            start = request.end
        if start < tool.end:
            pieces.append(tool._replace(start=start))
    return sorted(pieces)


def _joined(stretches: Iterable[Stretch]) -> list[Stretch]:
    """Stretches of one kind, those that overlap made one; it failed if the one that ended last did."""
    joined: list[Stretch] = []
    for stretch in stretches:
        if joined and stretch.start <= joined[-1].end:
            last = max(joined[-1], stretch, key=lambda each: each.end)
            joined[-1] = last._replace(start=joined[-1].start)
        else:
            joined.append(stretch)
    return joined
