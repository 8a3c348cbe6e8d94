"""`critiqor show RUN`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from critiqor.cli.completion_values import run_names
from critiqor.cli.options import json_option, runs_dir_option
from critiqor.cli.output import answer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from critiqor.run.view import RunView


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("run", shell_complete=run_names)
@runs_dir_option
@json_option
def show(run: str, runs_dir: str, as_json: bool) -> None:
    """Show RUN: the verdict, the findings, and what the recorder did not see."""
    from msgspec import to_builtins

    from critiqor.cli.texts.show import run_summary
    from critiqor.run.store import RunStore
    from critiqor.run.view import RunView

    view = RunView(RunStore(runs_dir).run(run))
    if view.is_sealed and view.diagnosis is None and view.problem is not None:
        raise view.problem
    data = {**to_builtins(view.diagnosed_head), "evidence": view.integrity, "diagnosis": view.diagnosis}
    answer("show", data, run_summary(view), as_json=as_json, drawing=lambda: _drawing(view))


def _drawing(view: RunView) -> RenderableType:
    from critiqor.cli.drawings.show import run_drawing

    return run_drawing(view)
