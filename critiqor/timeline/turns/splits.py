"""Where the time of one turn went, from what is known to have gone on in it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Literal, NamedTuple

from critiqor.model.timeline import TurnSplit, UnattributedGap

MOST_GAPS = 5
SHORT_PAUSE_MS = 250.0
"""Before and after a tool; OpenClaw needs some ten milliseconds there. Between two requests nobody knows of a tool."""


class Stretch(NamedTuple):
    """Something that went on for a while; times in milliseconds since 1970."""

    start: float
    end: float
    kind: Literal["provider", "tool"]
    label: str
    failed: bool = False


class Splitter:
    """Adds up what went on in a turn. What lies between two of them is known of nobody, unless it is very short.

    Stretches can be given in portions, the earlier ones first, so that a turn of any length needs little memory; what
    reaches back into an earlier portion is cut.
    """

    def __init__(self) -> None:
        self._parts = {"provider": 0.0, "tool": 0.0, "before": 0.0, "retry": 0.0, "between": 0.0, "unknown": 0.0}
        self._first: Stretch | None = None
        self._last: Stretch | None = None
        self._asked = False
        """Whether there was a request yet: what lies before the first one was its preparation."""
        self._early: list[UnattributedGap] = []
        """Gaps before the first request, of which there may be none."""
        self._gaps: list[UnattributedGap] = []
        """The largest ones of which nothing is known."""

    def add(self, stretches: Iterable[Stretch]) -> None:
        """What else went on."""
        for piece in _pieces(stretches):
            self._add(piece)

    def split(self, start: float, end: float, *, ended: bool) -> TurnSplit:
        """The parts of the turn from its start to its end."""
        first, last = self._first, self._last
        leading = (first.start if first is not None else end) - start
        trailing = end - last.end if last is not None else 0.0
        parts = dict(self._parts)
        gaps = list(self._gaps)
        if self._asked:
            parts["before"] += leading
        else:
            gaps += [*self._early, _gap(leading, None, first)]
            parts["unknown"] += parts["before"] + leading
            parts["before"] = 0.0
        after = trailing if self._asked and ended else 0.0
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

    def _add(self, piece: Stretch) -> None:
        last = self._last
        if last is None:
            self._first = piece
        elif piece.end <= last.end:
            return
        elif piece.start > last.end:
            self._pause(last, piece)
        else:
            piece = piece._replace(start=last.end)
        self._asked = self._asked or piece.kind == "provider"
        self._parts[piece.kind] += piece.end - piece.start
        self._last = piece

    def _pause(self, last: Stretch, piece: Stretch) -> None:
        """Nothing went on between the two."""
        pause = piece.start - last.end
        if not self._asked:
            self._parts["before"] += pause
            self._early = _largest([*self._early, _gap(pause, last, piece)])
        elif last.kind == piece.kind == "provider" and last.failed:
            self._parts["retry"] += pause
        elif pause <= SHORT_PAUSE_MS and not last.kind == piece.kind == "provider":
            self._parts["between"] += pause
        else:
            self._parts["unknown"] += pause
            self._gaps = _largest([*self._gaps, _gap(pause, last, piece)])


def split_of(start: float, end: float, stretches: Iterable[Stretch], *, ended: bool) -> TurnSplit:
    """The parts of a turn in which all this went on."""
    splitter = Splitter()
    splitter.add(stretches)
    return splitter.split(start, end, ended=ended)


def _gap(duration: float, previous: Stretch | None, following: Stretch | None) -> UnattributedGap:
    after = previous.label if previous is not None else "the start"
    before = following.label if following is not None else "the end"
    return UnattributedGap(duration_ms=round(duration, 3), after=after, before=before)


def _largest(gaps: list[UnattributedGap]) -> list[UnattributedGap]:
    return sorted(gaps, key=lambda gap: gap.duration_ms, reverse=True)[:MOST_GAPS]


def _pieces(stretches: Iterable[Stretch]) -> list[Stretch]:
    """The stretches as pieces that follow each other; where both kinds go on, it is the provider's time."""
    ordered = sorted(stretches)
    asked = _joined(stretch for stretch in ordered if stretch.kind == "provider")
    pieces = list(asked)
    first = 0
    for tool in _joined(stretch for stretch in ordered if stretch.kind == "tool"):
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
