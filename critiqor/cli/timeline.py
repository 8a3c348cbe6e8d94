"""`critiqor timeline RUN`, `critiqor timeline FILE`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from critiqor.cli.output import answer, json_option, runs_dir_option

if TYPE_CHECKING:
    from critiqor.model.timeline import TimelineSummary


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("what", metavar="RUN|FILE")
@runs_dir_option
@click.option("--markdown", is_flag=True, help="Answer as Markdown, for a ticket or a pull request.")
@json_option
def timeline(what: str, runs_dir: str, markdown: bool, as_json: bool) -> None:
    """Show where the time went: the diagnostics timeline that OpenClaw wrote in RUN, or any timeline FILE.

    For a run, each turn is split with the help of what the recorder saw: before the provider, with it, in tools, after.
    """
    from critiqor.timeline import timeline_lines, timeline_markdown

    summary = _summary(what, runs_dir)
    text = timeline_markdown(summary) if markdown else "\n".join(timeline_lines(summary))
    answer("timeline", summary, text, as_json=as_json)


def _summary(what: str, runs_dir: str) -> TimelineSummary:
    from critiqor.storage.paths import paths_for
    from critiqor.timeline import read_timeline

    file = Path(what)
    if file.is_file() and not paths_for(runs_dir).has_run(what):
        return read_timeline(file)
    from critiqor.diagnoses import run_timeline

    return run_timeline(what, runs_dir)
