"""The lane chart of a run at the width of the terminal: what was active when, and when failures began."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import msgspec
from rich.console import Console, ConsoleOptions
from rich.text import Text

from critiqor.cli.terminal.axis import Axis, Interval
from critiqor.cli.terminal.styled_text import FAINT, SEVERITIES, styled
from critiqor.errors import CritiqorError
from critiqor.exporters.trace.activity import activity
from critiqor.exporters.trace.lanes import lay_out
from critiqor.model import Finding, ms_from_iso
from critiqor.model.event import place_of
from critiqor.model.formatting import format_duration
from critiqor.model.timeline import Stall
from critiqor.model.timestamps import us_of
from critiqor.model.trace import Category, Part, Slice, is_retry
from critiqor.run.store import Run

MAX_ROWS = 3
"""Maximum rows of one lane for overlapping bars; the last row takes all bars that fit into no other row."""
LABEL = 11
"""Width of the lane names in columns."""
MIN_WIDTH_WITH_COUNTS = 60
"""Minimum terminal columns for the number of bars beside each lane."""
COUNTS_GUTTER = 2
ONE, OTHER, FAILED, MOMENT = "█", "▓", "✗", "◆"
FINDING = "▲"
GAP = "┊"


class Bar(NamedTuple):
    """Something that took time, or a moment, in microseconds."""

    start_us: int
    end_us: int
    row: int
    """From 0."""
    failed: bool
    glyph: str | None = None
    """Character to draw instead of a plain bar."""
    style: str | None = None


class Lane(NamedTuple):
    """All bars of one kind."""

    name: str
    style: str
    bars: list[Bar]

    @property
    def rows(self) -> int:
        return max((bar.row for bar in self.bars), default=0) + 1


class LanesChart:
    """A lane chart that fills the available width."""

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self.lanes = lanes

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        yield from chart_lines(self.lanes, options.max_width)


def run_lanes(run: Run, stalls: Iterable[Stall]) -> list[Lane]:
    """Return the lanes of the chart of a run; an empty list if its evidence cannot be read."""
    findings: list[Finding] = []
    with suppress(CritiqorError):  # a run that is not diagnosed yet has no findings
        findings = run.diagnosis.failure_analysis.findings
    try:
        return build_lanes(activity(run.events()), findings, stalls)
    except (CritiqorError, OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []


def build_lanes(parts: Iterable[Part], findings: Iterable[Finding] = (), stalls: Iterable[Stall] = ()) -> list[Lane]:
    """Return the lanes of a chart on the terminal that are not empty: findings, agent runs down to tool calls, retries,
    stalls.

    There can be very many `parts`: they are read once, and only what is drawn is kept.
    """
    slices: dict[Category, list[Slice]] = {category: [] for category in _LANES}
    retries: list[Bar] = []
    end = 0
    for part in parts:
        if isinstance(part, Slice) and part.category in slices:
            slices[part.category].append(msgspec.structs.replace(part, name="", facts={}))
            end = max(end, part.start_us, part.end_us or 0)
        if is_retry(part):
            at = part.start_us if isinstance(part, Slice) else part.at_us
            retries.append(Bar(at, at, 0, False, MOMENT))
    busy = [Lane(*_LANES[category], _bars(each, end)) for category, each in slices.items()]
    busy += [Lane("retries", "yellow", retries), Lane("stalls", "bright_red", list(_stalls(stalls)))]
    busy = [lane for lane in busy if lane.bars]
    marked = Lane("findings", "red", list(_marks(findings)))
    return [marked, *busy] if marked.bars and busy else busy


_LANES: dict[Category, tuple[str, str]] = {
    "agent": ("agent runs", "blue"),
    "turn": ("turns", "cyan"),
    "model": ("model", "magenta"),
    "tool": ("tools", "green"),
    "memory": ("memory", "bright_blue"),
    "compaction": ("compaction", "bright_magenta"),
}
"""The lanes of work by category: name and color."""


def _bars(slices: Iterable[Slice], end_us: int) -> list[Bar]:
    return [
        Bar(placed.start_us, placed.end_us, min(placed.lane, MAX_ROWS) - 1, placed.slice.failed)
        for placed in lay_out(slices, end_us)
    ]


def _marks(findings: Iterable[Finding]) -> Iterator[Bar]:
    """Yield a mark at the first event of each finding, if its time is known."""
    for finding in findings:
        place = place_of(finding.first_event)
        if place is not None:
            at = us_of(place.milliseconds)
            yield Bar(at, at, 0, False, FINDING, SEVERITIES[finding.severity])


def _stalls(stalls: Iterable[Stall]) -> Iterator[Bar]:
    for stall in stalls:
        if (end := ms_from_iso(stall.at)) is not None:
            yield Bar(us_of(end - stall.delay_ms), us_of(end), 0, False)


def chart_lines(lanes: Sequence[Lane], width: int) -> list[Text]:
    """Draw the chart at a width in columns: lanes, time axis, legend."""
    counted = width >= MIN_WIDTH_WITH_COUNTS
    columns = width - LABEL - (COUNTS_GUTTER + max(map(len, map(_counts, lanes)), default=0) if counted else 0)
    if columns < 1 or not lanes:
        return []
    axis = Axis(_busy(lanes), columns)
    lines = []
    for lane in lanes:
        for row, cells in enumerate(_draw_lane(lane, axis)):
            line = styled(("" if row else lane.name).ljust(LABEL), FAINT).append_text(cells)
            lines.append(line.append(" " * COUNTS_GUTTER + _counts(lane), FAINT) if counted and not row else line)
    lines.append(Text(" " * LABEL).append_text(_ruler(axis)))
    return [*lines, *(Text(" " * LABEL + line, FAINT) for line in _legend(lanes, axis))]


def _busy(lanes: Iterable[Lane]) -> Iterator[Interval]:
    """Yield the times of work. Findings do not count: one can be far from everything that is drawn."""
    for lane in lanes:
        if lane.name != "findings":
            yield from (Interval(bar.start_us, bar.end_us) for bar in lane.bars)


def _draw_lane(lane: Lane, axis: Axis) -> list[Text]:
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
                continue  # a failure is never covered
            crowded = glyph == OTHER and before in (ONE, OTHER)
            row[column] = (ONE if crowded else glyph, style)
    return [_text(row) for row in rows]


def _text(row: list[tuple[str, str]]) -> Text:
    """Join cells, grouped by style."""
    groups = groupby(row, key=itemgetter(1))
    return Text.assemble(*(("".join(glyph for glyph, _ in cells), style) for style, cells in groups))


def _counts(lane: Lane) -> str:
    failed = sum(bar.failed for bar in lane.bars)
    return f"{len(lane.bars):,}, {failed:,} failed" if failed else f"{len(lane.bars):,}"


def _ruler(axis: Axis) -> Text:
    """Draw the time axis under the lanes, with the total time."""
    whole = format_duration((axis.end_us - axis.start_us) / 1000)
    room = max(0, axis.width - 1 - len(whole) - 1)
    return Text(f"0{'─' * room} {whole}"[: axis.width], FAINT)


def _legend(lanes: Sequence[Lane], axis: Axis) -> list[str]:
    """Explain the symbols that the chart contains, on one line if that fits."""
    symbols: list[tuple[str, Callable[[Bar], bool]]] = [
        (f"{FAILED} failed", lambda bar: bar.failed),
        (f"{FINDING} a finding begins", lambda bar: bar.glyph == FINDING),
        (f"{MOMENT} retry", lambda bar: bar.glyph == MOMENT),
    ]
    entries = [text for text, is_shown in symbols if any(is_shown(bar) for lane in lanes for bar in lane.bars)]
    if any(
        number % 2 and not bar.failed and bar.glyph is None for lane in lanes for number, bar in enumerate(lane.bars)
    ):
        entries.insert(0, f"{ONE} {OTHER} alternate from one bar to the next")
    if axis.gaps:
        longest = max(gap.end_us - gap.start_us for gap in axis.gaps)
        entries.append(f"{GAP} idle for up to {format_duration(longest / 1000)}")
    line = "   ".join(entries)
    return entries if len(line) > axis.width else [line] * bool(entries)
