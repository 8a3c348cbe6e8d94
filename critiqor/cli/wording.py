"""Figures of runs in words, the same in every verb that shows them: what is unknown is called so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from critiqor.model.formatting import money, number
from critiqor.model.sanitize import collapse_whitespace

LABELS = {
    "trust": "trust",
    "confidence": "confidence",
    "findings": "findings",
    "cost_usd": "cost",
    "tokens": "tokens",
    "model_calls": "model calls",
    "tool_calls": "tool calls",
    "wall_ms": "time",
}
"""What the figures of a run are called."""


def figure(name: str, value: float | None) -> str:
    """A figure with its unit."""
    if value is None:
        return "unknown"
    if name == "cost_usd":
        return money(value)
    return f"{value / 1000:,.1f} s" if name == "wall_ms" else number(value)


def standing(head: Mapping[str, Any], outcome: str | None = None) -> str:
    """Where a run stands, for people: its status is that of the recording, and does not tell how the agent ended."""
    from critiqor.run.lifecycle import owner_is_alive

    status = str(head["status"])
    if outcome not in (None, "completed"):
        return f"{status} (outcome: {str(outcome).replace('_', ' ')})"
    if status == "MONITORING" and head["owner"] is not None and not owner_is_alive(head):
        return f"{status} (ended, not finalized)"
    return status


def difference(name: str, value: float | None) -> str:
    """How much a figure changed, with its sign."""
    if not value:
        return "unknown" if value is None else "same"
    return ("+" if value > 0 else "-") + figure(name, abs(value))


def table(rows: Sequence[Sequence[str]], indent: str = "  ") -> list[str]:
    """Rows as lines with aligned columns; the last column is as long as it is."""
    cells = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in list(zip(*cells, strict=True))[:-1]]
    return [
        indent + "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip()
        for row in cells
    ]


def one_line(text: str) -> str:
    """A name with a line break must not look like a line of ours."""
    return collapse_whitespace(text)


def page(lines: Iterable[str]) -> str:
    """Lines as one text."""
    return "\n".join(line.replace("\n", " ") for line in lines)
