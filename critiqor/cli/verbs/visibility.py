"""`critiqor visibility RUN [WHO]`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from critiqor.cli.completion_values import run_names
from critiqor.cli.options import json_option, runs_dir_option
from critiqor.cli.output import answer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from critiqor.run.visibility import RunVisibility

VISIBILITIES = ["private", "shared", "anonymous", "public"]


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("run", shell_complete=run_names)
@click.argument("who", required=False, type=click.Choice(VISIBILITIES), metavar=f"[{'|'.join(VISIBILITIES)}]")
@runs_dir_option
@json_option
def visibility(run: str, who: str | None, runs_dir: str, as_json: bool) -> None:
    """Show or change who may see RUN.

    \b
    critiqor visibility run_001                show who may see it
    critiqor visibility run_001 anonymous      structure and numbers only, in the dashboard and in exports
    critiqor visibility run_001 private        only you; its links are revoked

    The seal of RUN stays intact, and its record keeps every change.
    """
    from critiqor.run.store import RunStore
    from critiqor.run.visibility import read_visibility

    handle = RunStore(runs_dir).run(run)
    if who is None:
        result = read_visibility(handle)
    else:
        from critiqor.dashboard.web.links import change_run_visibility

        result = change_run_visibility(handle, who)
    answer("visibility", result, _text(result), as_json=as_json, drawing=lambda: _drawing(result))


def _drawing(result: RunVisibility) -> RenderableType:
    from rich.console import Group

    from critiqor.cli.terminal.styled_text import preformatted

    return Group(*map(preformatted, _text(result).split("\n")))


def _text(result: RunVisibility) -> str:
    was = f" (it was {result.before})" if result.before is not None else ""
    lines = [f"{result.run_id} is {result.visibility}{was}: {result.meaning}"]
    if result.visibility == "shared":
        lines.append(f"To create links, open the Trust and privacy page: critiqor dashboard {result.run_id}")
    return "\n".join(lines)
