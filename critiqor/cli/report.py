"""`critiqor report RUN`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from critiqor.cli.names import run_names
from critiqor.cli.output import answer, json_option, runs_dir_option, say
from critiqor.errors import UsageError
from critiqor.reporters import FORMATS

REPORTS = [name for name, format_ in FORMATS.items() if format_.is_report]


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("run", shell_complete=run_names)
@click.option("--format", "format_name", type=click.Choice(REPORTS), help="What to write.  [default: markdown]")
@click.option("--output", "-o", metavar="FILE", help="Where to write it.  [default: standard output]")
@runs_dir_option
@json_option
def report(run: str, format_name: str | None, output: str | None, runs_dir: str, as_json: bool) -> None:
    """Report on RUN: the verdict, the problem to look at first, every finding with the next command, the figures.

    \b
    critiqor report run_001                        Markdown, which fits a comment on a pull request
    critiqor report run_001 -o run_001.md          the same into a file
    critiqor report run_001 --format json          the diagnosis, the head of the record and the coverage
    """
    from critiqor.exports import export_run, load_report

    to_stream = output in (None, "-")
    if as_json and to_stream:
        if format_name == "markdown":
            raise UsageError("--json would stand in the very output that the report goes to", fix="--output FILE")
        answer("report", load_report(run, runs_dir), "", as_json=True)
        return
    target = sys.stdout.buffer if to_stream else Path(str(output))
    written = export_run(run, format_name or "markdown", target, runs_dir)
    if as_json:
        answer("report", written, "", as_json=True)
    elif written.file is not None:
        say(f"wrote the report of {written.run_id} to {written.file}, {written.bytes} bytes")
