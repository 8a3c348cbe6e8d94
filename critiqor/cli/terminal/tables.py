"""Tables that become lists where the terminal is too narrow for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from critiqor.cli.terminal.screen import FAINT, ours, theirs
from critiqor.timeline.layout import Name, Part, Piece
from critiqor.timeline.layout import Table as PartTable

GUTTER = 2
LEAST_TEXT = 24
"""Columns that a text needs to be readable when it is wrapped."""


class FittingTable:
    """Rows under heads; each row a small paragraph where they do not fit beside each other."""

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
        """Where the columns stand, all but the first one."""
        self._wrapped = wrapped
        """Whether the last column is a text that may be wrapped."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        if self._width() <= options.max_width:
            yield self._table()
        else:
            yield from self._paragraphs()

    def _width(self) -> int:
        """What the table needs at least."""
        cells: list[Sequence[Text]] = [[Text(head) for head in self._heads], *self._rows]
        widths: list[int] = [max(cell.cell_len for cell in column) for column in zip(*cells, strict=True)]
        if self._wrapped:
            widths[-1] = min(widths[-1], LEAST_TEXT)
        return sum(widths) + GUTTER * (len(widths) - 1)

    def _table(self) -> Table:
        table = Table.grid(padding=(0, GUTTER, 0, 0))
        last = len(self._heads) - 1
        for place in range(len(self._heads)):
            free = self._wrapped and place == last
            table.add_column(justify=self._justify if place and not free else "left", no_wrap=not free)
        if any(self._heads):
            table.add_row(*(Text(head, FAINT) for head in self._heads))
        for row in self._rows:
            table.add_row(*row)
        return table

    def _paragraphs(self) -> Iterator[RenderableType]:
        for row in self._rows:
            yield Text.assemble(row[0], style="bold")
            told = Text()
            for head, cell in zip(self._heads[1:], row[1:], strict=True):
                if cell.cell_len:
                    told.append(" · " if told.cell_len else "").append(f"{head} " if head else "", FAINT)
                    told.append_text(cell)
            yield Padding(told, (0, 0, 0, GUTTER))


def drawn_parts(parts: Sequence[Part]) -> Iterator[RenderableType]:
    """A report in parts: titles, lines and tables."""
    for number, part in enumerate(parts):
        if number:
            yield Text()
        yield ours(part.title, "bold")
        for item in part.items:
            yield Padding(Text.assemble(*map(_text, item.pieces)), (0, 0, 0, GUTTER * (item.depth + 1)))
        if part.table is not None:
            yield Padding(_table(part.table), (0, 0, 0, GUTTER))


def _table(table: PartTable) -> FittingTable:
    return FittingTable(table.heads, [[_text(piece) for piece in row] for row in table.rows], justify="right")


def _text(piece: Piece) -> Text:
    return theirs(piece.text) if isinstance(piece, Name) else ours(piece)
