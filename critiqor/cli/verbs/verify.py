"""`critiqor verify RUN`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from critiqor.cli.completion_values import run_names
from critiqor.cli.options import json_option, runs_dir_option
from critiqor.cli.output import answer
from critiqor.errors import ExitCode

if TYPE_CHECKING:
    from rich.console import RenderableType

    from critiqor.storage.seals.verification import Verification


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("run", shell_complete=run_names)
@runs_dir_option
@json_option
@click.pass_context
def verify(ctx: click.Context, run: str, runs_dir: str, as_json: bool) -> None:
    """Check that the sealed evidence of RUN is unchanged, and show where it is not."""
    from critiqor.run.store import RunStore

    result = RunStore(runs_dir).run(run).verify()
    if result.intact:
        text = f"{run}: the seal is intact ({result.events} events, {result.digest})"
    else:
        text = "\n".join([f"{run}: the seal is BROKEN", *(f"  · {problem}" for problem in result.problems)])
    answer("verify", result, text, as_json=as_json, drawing=lambda: _drawing(result))
    ctx.exit(ExitCode.OK if result.intact else ExitCode.ERROR)


def _drawing(result: Verification) -> RenderableType:
    from critiqor.cli.drawings.verify import seal_drawing

    return seal_drawing(result)
