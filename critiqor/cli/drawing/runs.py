"""The runs of a folder on a terminal: one a line, with a bar for trust."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.text import Text

from critiqor.cli.drawing.bars import bar, score_style, sparkline
from critiqor.cli.drawing.screen import FAINT, next_step, styled, theirs
from critiqor.cli.hints import pasted
from critiqor.diagnosis.text import counted

MOST_SHOWN = 50
"""Runs on a screen; the newest."""
WIDE_BAR, NARROW_BAR = 10, 4
SPARKS = 30
GUTTER = 2
ROOMY, DATED, WHOSE = 60, 80, 110
"""Columns that a terminal needs for wide bars, for the date of a run, and for its agent."""


def runs_drawing(rows: Sequence[Mapping[str, Any]], folder: str) -> Group:
    """Rows as the verb `runs` makes them, the newest first."""
    if not rows:
        return Group(theirs(f"No runs in {folder} yet."), next_step("critiqor monitor openclaw"))
    return Group(*_parts(rows))


def _parts(rows: Sequence[Mapping[str, Any]]) -> Iterator[RenderableType]:
    trusts = [row["trust"] for row in reversed(rows) if row["trust"] is not None]
    title = styled(counted(len(rows), "run"), "bold")
    if len(trusts) > 1:
        title.append("   trust, oldest to newest ", FAINT).append(sparkline(trusts, SPARKS, 100))
    yield title
    yield Text()
    yield RunsTable(rows[:MOST_SHOWN])
    if len(rows) > MOST_SHOWN:
        yield Text(f"and {len(rows) - MOST_SHOWN} older: {pasted('critiqor runs --json')} has them all", FAINT)
    yield next_step(f"critiqor show {rows[0]['run_id']}")


class RunsTable:
    """As many columns as the terminal has room for, and a headline that is cut to what is left."""

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._rows = rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        width = options.max_width
        rows = [self._cells(row, width) for row in self._rows]
        widths = [max(cell.cell_len for cell in column) for column in zip(*rows, strict=True)]
        for row in rows:
            line = Text()
            for cell, columns in zip(row[:-1], widths, strict=False):
                line.append_text(cell).append(" " * (columns - cell.cell_len + GUTTER))
            line.append_text(row[-1])
            line.truncate(width, overflow="ellipsis")
            yield line

    def _cells(self, row: Mapping[str, Any], width: int) -> list[Text]:
        cells = [theirs(row["run_id"], "bold", most=20), _trust(row, WIDE_BAR if width >= ROOMY else NARROW_BAR)]
        if width >= DATED:
            cells.append(theirs(_date(row["created_at"]), FAINT))
        if width >= WHOSE:
            cells.append(theirs(row["agent_id"] or "-", most=20))
        return [*cells, theirs(row["headline"] or "", most=200)]


def _trust(row: Mapping[str, Any], width: int) -> Text:
    trust = row["trust"]
    if trust is not None:
        return bar(trust / 100, width, score_style(trust)).append(f" {trust:>3}")
    return theirs(row["status"].lower(), "red" if row["status"] == "UNREADABLE" else "yellow")


def _date(created_at: str | None) -> str:
    return (created_at or "-")[:16].replace("T", " ")
