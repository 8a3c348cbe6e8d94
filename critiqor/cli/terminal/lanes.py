"""A run as a chart of lanes at the width of the terminal: who was at work when, and where it went wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import msgspec
from rich.console import Console, ConsoleOptions
from rich.text import Text

from critiqor.cli.terminal.axis import Axis, Interval
from critiqor.cli.terminal.screen import FAINT, SEVERITIES, styled
from critiqor.exporters.findings import first_step
from critiqor.exporters.trace.activity import is_retry
from critiqor.exporters.trace.lanes import lay_out
from critiqor.model import Finding, ms_from_iso
from critiqor.model.event import place_of
from critiqor.model.timeline import Stall, spent
from critiqor.model.trace import Category, Part, Slice, us_of

MOST_ROWS = 3
"""Rows of one lane, for what happened at the same time; the last one takes all that the others have no room for."""
LABEL = 11
"""Columns of the names of lanes."""
LEAST_COUNTED = 60
"""Columns that a terminal needs to have counts beside the lanes."""
COUNTS_GUTTER = 2
ONE, OTHER, FAILED, MOMENT = "█", "▓", "✗", "◆"
FINDING = "▲"
GAP = "┊"


class Bar(NamedTuple):
    """Something that took time, or a moment."""

    start_us: int
    end_us: int
    row: int
    """From 0."""
    failed: bool
    glyph: str | None = None
    """What marks it where it is no plain bar."""
    style: str | None = None


class Lane(NamedTuple):
    """Everything of one kind."""

    name: str
    style: str
    bars: list[Bar]

    @property
    def rows(self) -> int:
        return max((bar.row for bar in self.bars), default=0) + 1


class LanesChart:
    """A chart that takes the width it is given."""

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self.lanes = lanes

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        yield from chart_lines(self.lanes, options.max_width)


def lanes_of(parts: Iterable[Part], findings: Iterable[Finding] = (), stalls: Iterable[Stall] = ()) -> list[Lane]:
    """The lanes of a run that have something in them, from the whole down to its parts.

    `parts` are looked at once, and of each only what is drawn is kept: there can be very many.
    """
    slices: dict[Category, list[Slice]] = {category: [] for category in _WORK}
    retries: list[Bar] = []
    end = 0
    for part in parts:
        if isinstance(part, Slice) and part.category in slices:
            slices[part.category].append(msgspec.structs.replace(part, name="", facts={}))
            end = max(end, part.start_us, part.end_us or 0)
        if is_retry(part):
            again = part.start_us if isinstance(part, Slice) else part.at_us
            retries.append(Bar(again, again, 0, False, MOMENT))
    busy = [Lane(*_WORK[category], _bars(each, end)) for category, each in slices.items()]
    busy += [Lane("retries", "yellow", retries), Lane("stalls", "bright_red", list(_stalls(stalls)))]
    busy = [lane for lane in busy if lane.bars]
    marked = Lane("findings", "red", list(_marks(findings)))
    return [marked, *busy] if marked.bars and busy else busy


_WORK: dict[Category, tuple[str, str]] = {
    "agent": ("turns", "blue"),
    "turn": ("steps", "cyan"),
    "model": ("model", "magenta"),
    "tool": ("tools", "green"),
    "memory": ("memory", "bright_blue"),
    "compaction": ("compaction", "bright_magenta"),
}
"""What has a lane, what that is called and how it is coloured."""


def _bars(slices: Iterable[Slice], end_us: int) -> list[Bar]:
    return [
        Bar(placed.start_us, placed.end_us, min(placed.lane, MOST_ROWS) - 1, placed.slice.failed)
        for placed in lay_out(slices, end_us)
    ]


def _marks(findings: Iterable[Finding]) -> Iterator[Bar]:
    """Where findings began to go wrong, as far as an event tells it."""
    for finding in findings:
        place = place_of(first_step(finding))
        if place is not None:
            at = us_of(place.milliseconds)
            yield Bar(at, at, 0, False, FINDING, SEVERITIES[finding.severity])


def _stalls(stalls: Iterable[Stall]) -> Iterator[Bar]:
    for stall in stalls:
        if (end := ms_from_iso(stall.at)) is not None:
            yield Bar(us_of(end - stall.delay_ms), us_of(end), 0, False)


def chart_lines(lanes: Sequence[Lane], width: int) -> list[Text]:
    """The chart in so many columns: the lanes, then the axis, then what its signs mean."""
    counted = width >= LEAST_COUNTED
    columns = width - LABEL - (COUNTS_GUTTER + max(map(len, map(_counts, lanes)), default=0) if counted else 0)
    if columns < 1 or not lanes:
        return []
    axis = Axis(_busy(lanes), columns)
    lines = []
    for lane in lanes:
        drawn = _drawn(lane, axis)
        for row, cells in enumerate(drawn):
            line = styled(("" if row else lane.name).ljust(LABEL), FAINT).append_text(cells)
            lines.append(line.append(" " * COUNTS_GUTTER + _counts(lane), FAINT) if counted and not row else line)
    lines.append(Text(" " * LABEL).append_text(_ruler(axis)))
    return [*lines, *(Text(" " * LABEL + line, FAINT) for line in _legend(lanes, axis))]


def _busy(lanes: Iterable[Lane]) -> Iterator[Interval]:
    """When something was done; a finding may stand at a moment of its own, far from all that is drawn."""
    for lane in lanes:
        if lane.name != "findings":
            yield from (Interval(bar.start_us, bar.end_us) for bar in lane.bars)


def _drawn(lane: Lane, axis: Axis) -> list[Text]:
    empty = (" ", "")
    rows = [[empty] * axis.width for _ in range(lane.rows)]
    for column in axis.gap_columns():
        for row in rows:
            row[column] = (GAP, FAINT)
    for number, bar in enumerate(lane.bars):
        glyph = bar.glyph or (FAILED if bar.failed else OTHER if number % 2 else ONE)
        style = bar.style or ("bold red" if bar.failed else lane.style)
        row = rows[bar.row]
        for column in range(axis.column(bar.start_us), axis.column(bar.end_us) + 1):
            before = row[column][0]
            if before == FAILED:
                continue  # whatever else was in this moment, a failure is seen
            crowded = glyph == OTHER and before in (ONE, OTHER)
            row[column] = (ONE if crowded else glyph, style)
    return [_text(row) for row in rows]


def _text(row: list[tuple[str, str]]) -> Text:
    """Cells as a text, those of the same style together."""
    alike = groupby(row, key=itemgetter(1))
    return Text.assemble(*(("".join(glyph for glyph, _ in cells), style) for style, cells in alike))


def _counts(lane: Lane) -> str:
    failed = sum(bar.failed for bar in lane.bars)
    return f"{len(lane.bars):,}, {failed:,} failed" if failed else f"{len(lane.bars):,}"


def _ruler(axis: Axis) -> Text:
    """The whole time under the lanes."""
    whole = spent((axis.end_us - axis.start_us) / 1000)
    room = max(0, axis.width - 1 - len(whole) - 1)
    return Text(f"0{'─' * room} {whole}"[: axis.width], FAINT)


def _legend(lanes: Sequence[Lane], axis: Axis) -> list[str]:
    """What the signs mean that are there; on one line if that fits."""
    signs: list[tuple[str, Callable[[Bar], bool]]] = [
        (f"{FAILED} failed", lambda bar: bar.failed),
        (f"{FINDING} a finding begins", lambda bar: bar.glyph == FINDING),
        (f"{MOMENT} tried again", lambda bar: bar.glyph == MOMENT),
    ]
    told = [words for words, is_it in signs if any(is_it(bar) for lane in lanes for bar in lane.bars)]
    if any(
        number % 2 and not bar.failed and bar.glyph is None for lane in lanes for number, bar in enumerate(lane.bars)
    ):
        told.insert(0, f"{ONE} {OTHER} one after the other")
    if axis.gaps:
        longest = max(gap.end_us - gap.start_us for gap in axis.gaps)
        told.append(f"{GAP} nothing for up to {spent(longest / 1000)}")
    together = "   ".join(told)
    return told if len(together) > axis.width else [together] * bool(told)
