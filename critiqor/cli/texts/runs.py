"""Text of `critiqor runs`: a table with one line per run."""

from __future__ import annotations

from collections.abc import Sequence

from critiqor.cli.run_list import RunRow

_WIDTHS = {"run_id": 9, "status": 11, "created_at": 25, "agent_id": 16, "events": 8, "trust": 6, "confidence": 11}
_WIDTHS |= {"verdict": 8, "outcome": 13, "cost": 15}


def runs_lines(rows: Sequence[RunRow]) -> list[str]:
    """Return the list of runs with a line of titles above it. Runs of several hosts are named `HOST/RUN`."""
    longest = max((len(row.run.run_id) for row in rows), default=0)
    widths = {**_WIDTHS, "run_id": max(_WIDTHS["run_id"], longest)}
    columns = (*widths, "headline")
    titles = _line([name.replace("_", " ") for name in columns], widths)
    return [titles, *(_line([_cell(row, name) for name in columns], widths) for row in rows)]


def _cell(row: RunRow, name: str) -> object:
    if name == "headline":
        return row.run.description or None
    return row.cost if name == "cost" else getattr(row.run, name)


def _line(row: Sequence[object], widths: dict[str, int]) -> str:
    cells = ["-" if cell is None else " ".join(str(cell).split()) for cell in row]
    return " ".join(cell.ljust(width) for cell, width in zip(cells, (*widths.values(), 0), strict=True)).rstrip()
