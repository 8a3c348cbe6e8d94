"""`critiqor runs`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from critiqor.cli.hints import add_runs_dir
from critiqor.cli.options import json_option, runs_dir_option
from critiqor.cli.output import answer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from critiqor.cli.run_list import RunRow
    from critiqor.run.store import RunStore


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@runs_dir_option
@json_option
def runs(runs_dir: str, as_json: bool) -> None:
    """List the runs in this folder, newest first."""
    from critiqor.cli.garbage import paused_collection
    from critiqor.cli.run_list import list_lost_run, list_run
    from critiqor.run.store import RunStore

    store = RunStore(runs_dir)
    with paused_collection():
        rows = [list_run(run) for run in reversed(store.runs())]
        rows += map(list_lost_run, store.paths.lost_run_ids())
    text = "\n".join(_lines(rows)) if rows else f"{_no_runs(store)}\nNext: {add_runs_dir('critiqor monitor openclaw')}"
    data = [row.run for row in rows]
    answer("runs", data, text, as_json=as_json, drawing=lambda: _drawing(rows, store))


def _no_runs(store: RunStore) -> str:
    folder = store.runs_dir
    return f"No runs in {folder} yet" + ("." if folder.exists() else ": there is no such folder.")


def _drawing(rows: Sequence[RunRow], store: RunStore) -> RenderableType:
    from critiqor.cli.drawings.runs import runs_drawing

    return runs_drawing(rows, _no_runs(store))


_WIDTHS = {"run_id": 9, "status": 11, "created_at": 25, "agent_id": 16, "events": 8, "trust": 6, "confidence": 11}
_WIDTHS |= {"verdict": 8, "outcome": 13, "cost": 15}
_COLUMNS = (*_WIDTHS, "headline")


def _lines(rows: Sequence[RunRow]) -> list[str]:
    cells = [[_cell(row, name) for name in _COLUMNS] for row in rows]
    return [_line([name.replace("_", " ") for name in _COLUMNS]), *map(_line, cells)]


def _cell(row: RunRow, name: str) -> object:
    if name == "headline":
        return row.run.description or None
    return row.cost if name == "cost" else getattr(row.run, name)


def _line(row: Sequence[object]) -> str:
    cells = ["-" if cell is None else " ".join(str(cell).split()) for cell in row]
    return " ".join(cell.ljust(_WIDTHS.get(name, 0)) for name, cell in zip(_COLUMNS, cells, strict=True)).rstrip()
