"""`critiqor runs`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from critiqor.cli.hints import pasted
from critiqor.cli.output import answer, json_option, runs_dir_option
from critiqor.errors import CritiqorError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from critiqor.storage.paths import SessionPaths


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@runs_dir_option
@json_option
def runs(runs_dir: str, as_json: bool) -> None:
    """List the runs of this folder, newest first."""
    from critiqor.storage.paths import paths_for

    paths = paths_for(runs_dir)
    rows = [_row(paths, run_id) for run_id in reversed(paths.run_ids())]
    if not rows:
        text = f"No runs in {paths.runs_dir} yet.\nNext: {pasted('critiqor monitor openclaw')}"
    else:
        text = "\n".join((_line({name: name.replace("_", " ") for name in rows[0]}), *map(_line, rows)))
    answer("runs", rows, text, as_json=as_json, drawing=lambda: _drawing(rows, paths))


def _drawing(rows: list[dict[str, Any]], paths: SessionPaths) -> RenderableType:
    from critiqor.cli.drawing.runs import runs_drawing

    return runs_drawing(rows, str(paths.runs_dir))


def _row(paths: SessionPaths, run_id: str) -> dict[str, Any]:
    from critiqor.records import load_head

    try:
        head = load_head(paths, run_id)
    except (CritiqorError, OSError) as error:
        # One broken record must not hide the others.
        return {**dict.fromkeys(_WIDTHS), "run_id": run_id, "status": "UNREADABLE", "headline": str(error)}
    return {
        "run_id": run_id,
        "status": head["status"],
        "created_at": head["timestamps"]["created_at"],
        "agent_id": head["metadata"]["agent_id"],
        "events": head["seal"]["events"] if head["seal"] else None,
        "trust": head["trust_score"],
        "confidence": head["confidence_score"],
        "headline": head["headline"],
    }


_WIDTHS = {"run_id": 9, "status": 11, "created_at": 25, "agent_id": 16, "events": 8, "trust": 6, "confidence": 11}


def _line(row: dict[str, Any]) -> str:
    cells = ("-" if row[name] is None else " ".join(str(row[name]).split()) for name in row)
    return " ".join(cell.ljust(_WIDTHS.get(name, 0)) for name, cell in zip(row, cells, strict=True)).rstrip()
