"""Layout of plain text: tables and pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from critiqor.model.sanitize import collapse_whitespace


def table(rows: Sequence[Sequence[str]], indent: str = "  ") -> list[str]:
    """Return rows as lines with aligned columns; the last column is not padded.

    Cells lose their line breaks, so that a name cannot look like a line of the output.
    """
    cells = [[collapse_whitespace(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in list(zip(*cells, strict=True))[:-1]]
    return [
        indent + "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip()
        for row in cells
    ]


def page(lines: Iterable[str]) -> str:
    """Join the lines of an output into one text; a line break within a line becomes a space."""
    return "\n".join(line.replace("\n", " ") for line in lines)
