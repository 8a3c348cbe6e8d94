"""A run that is being recorded, on a terminal: its figures, and what happened last."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.text import Text

from critiqor.cli.drawing.run import head_line
from critiqor.cli.drawing.screen import FAINT, side_by_side, styled, theirs
from critiqor.cli.happenings import Happening
from critiqor.following import Figures
from critiqor.model import ms_from_iso

NAME, SHORT_NAME = 24, 12
"""Columns of the names of events, where there is room and where there is little."""
ROOMY = 60
"""Columns that a terminal needs for whole names and thousandths of seconds."""


class LiveRun:
    """One moment of a run, in as many lines as the terminal has: what does not fit cannot be drawn anew."""

    def __init__(
        self, head: Mapping[str, Any], figures: Figures, latest: Sequence[Happening], now_ms: int, hint: str = ""
    ) -> None:
        self._head = head
        self._figures = figures
        self._latest = latest
        """The newest last."""
        self._now_ms = now_ms
        self._hint = hint

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        width = options.max_width
        above = [head_line(self._head), *side_by_side(figures_words(self._figures, self._now_ms), width), Text()]
        below = [Text(), Text(self._hint, FAINT)] if self._hint else []
        room = max(1, console.height - len(above) - len(below) - 1)
        latest = [happening_line(each, width) for each in self._latest[-room:]] or [Text("nothing yet", FAINT)]
        for line in (*above, *latest, *below):
            line.truncate(width, overflow="ellipsis")
            yield line


def figures_words(figures: Figures, now_ms: int) -> Iterator[Text]:
    """Calls, tools, errors, tokens, cost, and how long ago the last event was."""
    last = ms_from_iso(figures.last_event_at) if figures.last_event_at else None
    told = {
        "model calls": str(figures.model_calls),
        "tools": str(figures.tool_calls),
        "errors": str(figures.errors),
        "tokens": f"{figures.tokens:,}",
        "cost": "unknown" if figures.cost_usd is None else f"${figures.cost_usd:.4f}",
        "events": str(figures.events),
        "last": "never" if last is None else f"{_whole_seconds(now_ms - last)} ago",
    }
    if figures.unreadable:
        told["unreadable"] = str(figures.unreadable)
    for label, figure in told.items():
        alarming = label in ("errors", "unreadable") and figure != "0"
        yield styled(f"{label} ", FAINT).append(figure, "bold red" if alarming else "bold")


def _whole_seconds(milliseconds: int) -> str:
    """Finer figures would flicker."""
    seconds = max(0, milliseconds) // 1000
    return f"{seconds} s" if seconds < 600 else f"{seconds // 60} min"


def happening_line(each: Happening, width: int) -> Text:
    """An event on one line; how it is cut is up to whoever prints it."""
    columns, clock = (NAME, each.clock) if width >= ROOMY else (SHORT_NAME, each.clock[:8])
    style = "red" if each.failed else ""
    name = theirs(each.name, style, most=columns)
    line = styled(f"{clock}  ", FAINT).append_text(name).append(" " * (columns - name.cell_len + 1))
    return line.append_text(theirs(each.detail, style or FAINT))
