"""Drawing of `critiqor timeline`: the slowest turn in its parts, the run on time lanes, and all figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.text import Text

from critiqor.cli.terminal.lane_chart import Lane, LanesChart
from critiqor.cli.terminal.styled_text import next_command, side_by_side, styled
from critiqor.cli.terminal.tables import draw_report_tables
from critiqor.model.formatting import format_duration
from critiqor.model.timeline import TimelineSummary, Turn
from critiqor.timeline.reports.layout import Part


class Piece(NamedTuple):
    """A part of the time of a turn, and how it is drawn."""

    label: str
    field: str
    glyph: str
    style: str


PIECES = (
    Piece("before the first model call", "before_provider_ms", "▒", "blue"),
    Piece("with the provider", "with_provider_ms", "█", "magenta"),
    Piece("in tools", "in_tools_ms", "▓", "green"),
    Piece("between them", "between_ms", "░", "cyan"),
    Piece("retrying", "retrying_ms", "✗", "yellow"),
    Piece("after", "after_ms", "▄", "bright_blue"),
    Piece("unattributed", "unattributed_ms", "·", "red"),
)


class TurnBar:
    """The time of a turn as one bar across the terminal, with a legend."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        yield from turn_lines(self._turn, options.max_width)


def turn_lines(turn: Turn, width: int) -> list[Text]:
    """Return the bar of a turn in `width` columns, and its legend.

    A part shorter than a column is only in the legend.
    """
    parts = [(piece, max(0.0, getattr(turn.split, piece.field))) for piece in PIECES]
    whole = sum(time for _, time in parts)
    bar, legend = Text(), []
    reached, begun = 0.0, 0
    for piece, time in parts:
        reached += time
        end = round(width * reached / whole) if whole else 0
        bar.append(piece.glyph * (end - begun), piece.style)
        begun = end
        if time:
            legend.append(styled(f"{piece.glyph} ", piece.style).append(f"{format_duration(time)} {piece.label}"))
    return [bar, *side_by_side(legend, width)]


def timing_drawing(
    summary: TimelineSummary, lanes: Sequence[Lane], parts: Sequence[Part], following: str | None = None
) -> Group:
    """Draw the slowest turn, the lanes, the parts of the report, and the next command, if there is one."""
    return Group(*_parts(summary, lanes, parts, following))


def report_drawing(parts: Sequence[Part]) -> Group:
    """Draw the parts of a report only."""
    return Group(*draw_report_tables(parts))


def _parts(
    summary: TimelineSummary, lanes: Sequence[Lane], parts: Sequence[Part], following: str | None
) -> Iterator[RenderableType]:
    if summary.turns:
        slowest = summary.turns[0]
        which = "The agent run" if summary.turns_total == 1 else f"The slowest of {summary.turns_total} agent runs"
        yield Text(f"{which} took {format_duration(slowest.duration_ms)}", "bold")
        yield TurnBar(slowest)
        yield Text()
    if lanes:
        yield LanesChart(lanes)
        yield Text()
    yield from draw_report_tables(parts)
    if following is not None:
        yield next_command(following)
