"""`critiqor report RUN`."""

from __future__ import annotations

import click

from critiqor.cli.completion_values import run_names
from critiqor.cli.export_options import FILE_FORMATS, STDOUT, FormatChoice, output_target
from critiqor.cli.options import json_option, runs_dir_option
from critiqor.cli.output import answer, say
from critiqor.cli.progress import export_progress
from critiqor.dashboard import offline_pages
from critiqor.errors import UsageError


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("run", shell_complete=run_names)
@click.option(
    "--format", "format_name", type=FormatChoice(reports=True), help="Format of the report.  [default: markdown]"
)
@click.option(
    "--output",
    "-o",
    metavar="FILE",
    help="Output file; - is standard output.  [default: standard output; for html and pdf RUN.html, RUN.pdf]",
)
@runs_dir_option
@json_option
def report(run: str, format_name: str | None, output: str | None, runs_dir: str, as_json: bool) -> None:
    """Report on RUN: the verdict, the problem to look at first, every finding with the next command, the figures.

    \b
    critiqor report run_001                        Markdown that fits into a comment on a pull request
    critiqor report run_001 -o run_001.md          the same, written to a file
    critiqor report run_001 --format html          run_001.html: overview, diagnosis, timeline and evidence in one file
    critiqor report run_001 --format pdf           the same as PDF, if Chromium is installed
    critiqor report run_001 --format json          the diagnosis, the head of the record and the coverage
    """
    from critiqor.exporters import ExportOptions, export_run, load_report
    from critiqor.run.store import RunStore

    reported = RunStore(runs_dir).run(run)
    if output is None and format_name not in FILE_FORMATS:
        output = STDOUT
    if as_json and output == STDOUT:
        if format_name == "markdown" or format_name in FILE_FORMATS:
            raise UsageError("--json and the report cannot both write to standard output", fix="--output FILE")
        answer("report", load_report(reported), "", as_json=True)
        return
    format_name = format_name or "markdown"
    with export_progress(f"writing {run} as {format_name}", run, runs_dir, to_stdout=output == STDOUT):
        written = export_run(
            reported, format_name, output_target(format_name, output), ExportOptions(pages=offline_pages)
        )
    if as_json:
        answer("report", written, "", as_json=True)
        return
    for note in written.notes:
        say(note)
    if written.file is not None:
        say(f"wrote the report of {written.run_id} to {written.file}, {written.bytes} bytes")
