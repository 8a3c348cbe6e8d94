"""`critiqor visibility RUN [WHO]`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from critiqor.cli.completion_values import run_names
from critiqor.cli.options import json_option, runs_dir_option
from critiqor.cli.output import answer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from critiqor.run.visibility import Standing

WHO = ["private", "shared", "anonymous", "public"]


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("run", shell_complete=run_names)
@click.argument("who", required=False, type=click.Choice(WHO), metavar=f"[{'|'.join(WHO)}]")
@runs_dir_option
@json_option
def visibility(run: str, who: str | None, runs_dir: str, as_json: bool) -> None:
    """Say who may see RUN, or change that.

    \b
    critiqor visibility run_001                who sees it now
    critiqor visibility run_001 anonymous      structure and figures only, in the dashboard and in exports
    critiqor visibility run_001 private        nobody but you; its links are revoked

    The seal of RUN stays intact, and its record tells of every change.
    """
    from critiqor.run.visibility import visibility_of

    if who is None:
        standing = visibility_of(run, runs_dir)
    else:
        from critiqor.dashboard.web.links import change_run_visibility
        from critiqor.storage.paths import paths_for

        standing = change_run_visibility(paths_for(runs_dir), run, who)
    answer("visibility", standing, _text(standing), as_json=as_json, drawing=lambda: _drawing(standing))


def _drawing(standing: Standing) -> RenderableType:
    from rich.console import Group

    from critiqor.cli.terminal.screen import preformatted

    return Group(*map(preformatted, _text(standing).split("\n")))


def _text(standing: Standing) -> str:
    was = f" (it was {standing.before})" if standing.before is not None else ""
    lines = [f"{standing.run_id} is {standing.visibility}{was}: {standing.meaning}"]
    if standing.visibility == "shared":
        lines.append(f"Links are made in its dashboard: critiqor dashboard {standing.run_id}, Trust and privacy")
    return "\n".join(lines)
