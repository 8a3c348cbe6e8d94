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

    from critiqor.cli.listed_runs import ListedRun
    from critiqor.storage.paths import SessionPaths


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@runs_dir_option
@json_option
def runs(runs_dir: str, as_json: bool) -> None:
    """List the runs of this folder, newest first."""
    from critiqor.cli.listed_runs import listed_run
    from critiqor.storage.paths import paths_for

    paths = paths_for(runs_dir)
    listed = [listed_run(paths, run_id) for run_id in reversed(paths.run_ids())]
    text = (
        "\n".join(_lines(listed)) if listed else f"{_nothing(paths)}\nNext: {add_runs_dir('critiqor monitor openclaw')}"
    )
    answer("runs", listed, text, as_json=as_json, drawing=lambda: _drawing(listed, paths))


def _nothing(paths: SessionPaths) -> str:
    folder = paths.runs_dir
    return f"No runs in {folder} yet" + ("." if folder.exists() else ": there is no such folder.")


def _drawing(listed: Sequence[ListedRun], paths: SessionPaths) -> RenderableType:
    from critiqor.cli.views.runs import runs_drawing

    return runs_drawing(listed, _nothing(paths))


_WIDTHS = {"run_id": 9, "status": 11, "created_at": 25, "agent_id": 16, "events": 8, "trust": 6, "confidence": 11}
_WIDTHS |= {"verdict": 8, "outcome": 13, "cost": 9}
_COLUMNS = (*_WIDTHS, "headline")


def _lines(listed: Sequence[ListedRun]) -> list[str]:
    rows = [[getattr(run, name) for name in _COLUMNS] for run in listed]
    return [_line([name.replace("_", " ") for name in _COLUMNS]), *map(_line, rows)]


def _line(row: Sequence[object]) -> str:
    cells = ["-" if cell is None else " ".join(str(cell).split()) for cell in row]
    return " ".join(cell.ljust(_WIDTHS.get(name, 0)) for name, cell in zip(_COLUMNS, cells, strict=True)).rstrip()
