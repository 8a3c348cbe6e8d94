"""Layout of plain text: tables, single lines and pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from critiqor.model.sanitize import collapse_whitespace


def table(rows: Sequence[Sequence[str]], indent: str = "  ") -> list[str]:
    """Return rows as lines with aligned columns; the last column is not padded."""
    cells = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in list(zip(*cells, strict=True))[:-1]]
    return [
        indent + "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip()
        for row in cells
    ]


def one_line(text: str) -> str:
    """Return a text without line breaks, so that a name cannot look like a line of the output."""
    return collapse_whitespace(text)


def page(lines: Iterable[str]) -> str:
    """Join lines into one text."""
    return "\n".join(line.replace("\n", " ") for line in lines)
