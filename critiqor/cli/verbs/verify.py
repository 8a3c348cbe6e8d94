"""`critiqor verify RUN`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from critiqor.cli.completion_values import run_names
from critiqor.cli.hints import add_runs_dir
from critiqor.cli.options import json_option, runs_dir_option
from critiqor.cli.output import answer
from critiqor.cli.text_layout import page
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
    """Check that evidence, record and diagnosis of RUN are unchanged, where they are not, and who signed them.

    The sealed evidence is diagnosed once more and compared with the diagnosis.
    """
    from critiqor.run.store import RunStore

    result = RunStore(runs_dir).run(run).verify(rediagnose=True)
    if result.intact:
        text = f"{run}: the seal is intact ({result.events} events, {result.digest})"
    else:
        text = f"{run}: the seal is BROKEN"
    answer("verify", result, page([text, *_lines(result)]), as_json=as_json, drawing=lambda: _drawing(result))
    ctx.exit(ExitCode.OK if result.intact else ExitCode.ERROR)


def _lines(result: Verification) -> Iterator[str]:
    marks = {"passed": "ok", "failed": "NO", "not checked": "--"}
    for check in result.checks:
        yield f"  {marks[check.state]}  {check.name}: {check.explanation}"
        if check.fix is not None and check.state == "failed":
            yield f"      → {add_runs_dir(check.fix)}"


def _drawing(result: Verification) -> RenderableType:
    from critiqor.cli.drawings.verify import seal_drawing

    return seal_drawing(result)
