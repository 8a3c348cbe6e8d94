"""Tables on a terminal: labels with values, and tables that become lists if the terminal is too narrow for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from critiqor.cli.terminal.styled_text import FAINT, preformatted, untrusted
from critiqor.timeline.reports.layout import Name, Part, Piece
from critiqor.timeline.reports.layout import Table as PartTable

GUTTER = 2
LABEL = 12
"""Width of the labels of facts in columns."""
MIN_TEXT_WIDTH = 24
"""Minimum width in columns at which a wrapped text is readable."""


class FittingTable:
    """A table that draws each row as a paragraph if the columns do not fit the width."""

    def __init__(
        self,
        heads: Sequence[str],
        rows: Sequence[Sequence[Text]],
        *,
        justify: Literal["left", "right"] = "left",
        wrapped: bool = False,
    ) -> None:
        self._heads = heads
        self._rows = rows
        self._justify = justify
        """Alignment of all columns but the first."""
        self._wrapped = wrapped
        """Whether the last column is text that may be wrapped."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        if self._min_width() <= options.max_width:
            yield self._table()
        else:
            yield from self._paragraphs()

    def _min_width(self) -> int:
        """Return the minimum width of the table, in columns."""
        cells: list[Sequence[Text]] = [[Text(head) for head in self._heads], *self._rows]
        widths: list[int] = [max(cell.cell_len for cell in column) for column in zip(*cells, strict=True)]
        if self._wrapped:
            widths[-1] = min(widths[-1], MIN_TEXT_WIDTH)
        return sum(widths) + GUTTER * (len(widths) - 1)

    def _table(self) -> Table:
        table = Table.grid(padding=(0, GUTTER, 0, 0))
        last = len(self._heads) - 1
        for index in range(len(self._heads)):
            may_wrap = self._wrapped and index == last
            table.add_column(justify=self._justify if index and not may_wrap else "left", no_wrap=not may_wrap)
        if any(self._heads):
            table.add_row(*(Text(head, FAINT) for head in self._heads))
        for row in self._rows:
            table.add_row(*row)
        return table

    def _paragraphs(self) -> Iterator[RenderableType]:
        for row in self._rows:
            yield Text.assemble(row[0], style="bold")
            values = Text()
            for head, cell in zip(self._heads[1:], row[1:], strict=True):
                if cell.cell_len:
                    values.append(" · " if values.cell_len else "").append(f"{head} " if head else "", FAINT)
                    values.append_text(cell)
            yield Padding(values, (0, 0, 0, GUTTER))


def facts_grid(facts: Sequence[tuple[str, Text]]) -> Table:
    """Return a table of labels with their values; long values wrap beside the labels."""
    grid = Table.grid()
    grid.add_column(style=FAINT, no_wrap=True, width=LABEL)
    grid.add_column(overflow="fold")
    for label, value in facts:
        grid.add_row(label, value)
    return grid


def draw_report_tables(parts: Sequence[Part]) -> Iterator[RenderableType]:
    """Draw the tables of a report on the terminal, each under its title and lines."""
    for number, part in enumerate(parts):
        if number:
            yield Text()
        yield preformatted(part.title, "bold")
        for item in part.items:
            yield Padding(Text.assemble(*map(_text, item.pieces)), (0, 0, 0, GUTTER * (item.depth + 1)))
        if part.table is not None:
            yield Padding(_table(part.table), (0, 0, 0, GUTTER))


def _table(table: PartTable) -> FittingTable:
    return FittingTable(table.heads, [[_text(piece) for piece in row] for row in table.rows], justify="right")


def _text(piece: Piece) -> Text:
    return untrusted(piece.text) if isinstance(piece, Name) else preformatted(piece)
