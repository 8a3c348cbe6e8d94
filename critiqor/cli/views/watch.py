"""A run that is being recorded, on a terminal: its figures, and what happened last."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.text import Text

from critiqor.cli.terminal.event_lines import EventLine
from critiqor.cli.terminal.screen import FAINT, side_by_side, styled, untrusted
from critiqor.cli.views.show import head_line
from critiqor.model import ms_from_iso
from critiqor.model.formatting import money, number
from critiqor.run.tail import Figures

NAME, SHORT_NAME = 24, 12
"""Columns of the names of events, where there is room and where there is little."""
USUAL = {"model calls": 4, "tools": 4, "errors": 3, "tokens": 9, "cost": 7, "events": 6, "last": 9, "unreadable": 1}
"""Columns that figures take from the beginning on: what grows must not push the rest onto another line."""
LEAST_HAPPENINGS = 2
"""Lines for what happens, however small the terminal is."""
ROOMY = 60
"""Columns that a terminal needs for whole names and thousandths of seconds."""


class LiveRun:
    """One moment of a run, in as many lines as the terminal has: what does not fit cannot be drawn anew."""

    def __init__(
        self,
        head: Mapping[str, Any],
        figures: Figures,
        latest: Sequence[EventLine],
        now_ms: int,
        hints: Sequence[str] = (),
    ) -> None:
        self._head = head
        self._figures = figures
        self._latest = latest
        """The newest last."""
        self._now_ms = now_ms
        self._hints = hints
        """What the keyboard can do, each on a line of its own where there is no room for all on one."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        width, lines = options.max_width, max(1, console.height - 1)
        figures = list(side_by_side(figures_words(self._figures, self._now_ms), width))
        hints = list(side_by_side([Text(hint, FAINT) for hint in self._hints], width))
        above, below = [head_line(self._head), *figures, Text()], [Text(), *hints] if hints else []
        if lines - len(above) - len(below) < LEAST_HAPPENINGS:
            # What happens is what one looks on for; where there is little room, the rest makes way for it.
            above, below = [head_line(self._head), *figures][: max(0, lines - LEAST_HAPPENINGS)], []
        room = max(1, lines - len(above) - len(below))
        latest = [happening_line(each, width) for each in self._latest[-room:]] or [Text("nothing yet", FAINT)]
        for line in (*above, *latest, *below):
            line.truncate(width, overflow="ellipsis")
            yield line


def figures_words(figures: Figures, now_ms: int) -> Iterator[Text]:
    """Calls, tools, errors, tokens, cost, and how long ago the last event was."""
    last = ms_from_iso(figures.last_event_at) if figures.last_event_at else None
    told = {
        "model calls": number(figures.model_calls),
        "tools": number(figures.tool_calls),
        "errors": number(figures.errors),
        "tokens": number(figures.tokens),
        "cost": "unknown" if figures.cost_usd is None else money(figures.cost_usd),
        "events": number(figures.events),
        "last": "never" if last is None else f"{_whole_seconds(now_ms - last)} ago",
    }
    if figures.unreadable:
        told["unreadable"] = number(figures.unreadable)
    for label, figure in told.items():
        alarming = label in ("errors", "unreadable") and figure != "0"
        told_figure = figure.ljust(USUAL[label])
        yield styled(f"{label} ", FAINT).append(told_figure, "bold red" if alarming else "bold")


def _whole_seconds(milliseconds: int) -> str:
    """Finer figures would flicker."""
    seconds = max(0, milliseconds) // 1000
    return f"{seconds} s" if seconds < 600 else f"{seconds // 60} min"


def happening_line(each: EventLine, width: int) -> Text:
    """An event on one line; how it is cut is up to whoever prints it."""
    columns, clock = (NAME, each.clock) if width >= ROOMY else (SHORT_NAME, each.clock[:8])
    style = "red" if each.failed else ""
    name = untrusted(each.name, style, max_length=columns)
    line = styled(f"{clock}  ", FAINT).append_text(name).append(" " * (columns - name.cell_len + 1))
    return line.append_text(untrusted(each.detail, style or FAINT))
