"""`critiqor export RUN --format FORMAT`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from critiqor.cli.output import answer, json_option, runs_dir_option, say
from critiqor.reporters import FORMATS

if TYPE_CHECKING:
    from critiqor.exports import Export


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("run")
@click.option("--format", "format_name", required=True, type=click.Choice(list(FORMATS)), help="What to write.")
@click.option(
    "--output", "-o", metavar="FILE", help="Where to write it; - is standard output.  [default: RUN.FORMAT.json]"
)
@runs_dir_option
@json_option
def export(run: str, format_name: str, output: str | None, runs_dir: str, as_json: bool) -> None:
    """Write RUN in a format that other tools open.

    \b
    critiqor export run_001 --format perfetto              run_001.perfetto.json, for https://ui.perfetto.dev
    critiqor export run_001 --format speedscope            its CPU profiles, for https://www.speedscope.app

    Names, ids, times and figures are written; arguments, outputs and messages stay in the evidence.
    """
    from critiqor.errors import UsageError
    from critiqor.exports import export_run
    from critiqor.storage.paths import paths_for

    if not paths_for(runs_dir).has_run(run) and Path(run).is_file():
        fix = f"critiqor timeline {run}   for a timeline; critiqor import {run}   to make a run of a trace"
        raise UsageError(f"{run} is a file, and only runs are exported", fix=fix)
    if output != "-":
        written = export_run(run, format_name, None if output is None else Path(output), runs_dir)
    elif as_json:
        raise UsageError("--json would stand in the very output that --output - asks for", fix="leave one of them out")
    else:
        written = export_run(run, format_name, sys.stdout.buffer, runs_dir)
    if as_json:
        answer("export", written, "", as_json=True)
    else:
        _say(written)


def _say(export: Export) -> None:
    for note in export.notes:
        say(note)
    where = "standard output" if export.file is None else export.file
    say(f"wrote {export.run_id} to {where}, {export.bytes} bytes\n  → open it in {export.opens_in}")
