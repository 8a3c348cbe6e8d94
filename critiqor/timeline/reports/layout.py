"""Layout of reports as lines for a terminal or as Markdown. Text from a file never becomes markup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from critiqor.model.sanitize import sanitize

INDENT = "  "
MAX_NAME = 200
"""Longest text from a file in Markdown, so that a report fits into a comment."""


class Name(NamedTuple):
    """A text from the timeline, which must be escaped, in contrast to the report's own text."""

    text: str


Piece = str | Name


class Item(NamedTuple):
    """One line; `depth` is its indentation level below the title, from 0."""

    depth: int
    pieces: Sequence[Piece]


class Table(NamedTuple):
    """Rows below column headings; the first column names the row."""

    heads: Sequence[str]
    rows: Sequence[Sequence[Piece]]


class Part(NamedTuple):
    """A section of a report: a title, then items and a table."""

    title: str
    items: Sequence[Item] = ()
    table: Table | None = None


def as_lines(parts: Iterable[Part]) -> list[str]:
    """Return the sections of a report as lines for a terminal."""
    lines: list[str] = []
    for part in parts:
        lines += ["", part.title] if lines else [part.title]
        lines += [INDENT * (item.depth + 1) + "".join(map(_plain, item.pieces)) for item in part.items]
        if part.table is not None:
            lines += _align(part.table)
    return lines


def as_markdown(parts: Iterable[Part], level: int = 2) -> str:
    """Return the sections of a report as Markdown, with their titles at this heading level."""
    blocks = []
    for part in parts:
        blocks.append(f"{'#' * level} {part.title}")
        if part.items:
            items = [INDENT * item.depth + "- " + "".join(map(_marked, item.pieces)) for item in part.items]
            blocks.append("\n".join(items))
        if part.table is not None:
            heads = list(part.table.heads)
            rule = ["---", *("---:" for _ in heads[1:])]
            cells = [heads, rule, *([_marked(piece) for piece in row] for row in part.table.rows)]
            blocks.append("\n".join(f"| {' | '.join(row)} |" for row in cells))
    return "\n\n".join(blocks) + "\n"


def _align(table: Table) -> list[str]:
    """Return the lines of a table, first column left-aligned, the others right-aligned."""
    cells = [list(table.heads), *([_plain(piece) for piece in row] for row in table.rows)]
    columns = list(zip(*cells, strict=True))
    widths = [max(map(len, column)) for column in columns]
    padded = [[cell.rjust(width) for cell in column] for column, width in zip(columns, widths, strict=True)]
    padded[0] = [cell.ljust(widths[0]) for cell in columns[0]]
    return [(INDENT + INDENT.join(row)).rstrip() for row in zip(*padded, strict=True)]


def _plain(piece: Piece) -> str:
    return _one_line(piece.text) if isinstance(piece, Name) else piece


def _marked(piece: Piece) -> str:
    if not isinstance(piece, Name):
        return piece
    text = sanitize(piece.text, max_length=MAX_NAME, collapse=True).replace("`", "'").replace("|", "\\|")
    return f"`{text}`" if text else ""


def _one_line(text: str) -> str:
    return sanitize(text, collapse=True)
