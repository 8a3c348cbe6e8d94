"""`critiqor export RUN --format FORMAT`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from critiqor.cli.completion_values import run_names
from critiqor.cli.file_output import STDOUT, offline_pages, output_target
from critiqor.cli.options import json_option, policy_option, read_policy, runs_dir_option
from critiqor.cli.output import answer, say
from critiqor.cli.progress import export_progress
from critiqor.errors import UsageError
from critiqor.exporters.formats import FORMATS

if TYPE_CHECKING:
    from critiqor.exporters import Export, Sending, Wishes


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("run", shell_complete=run_names)
@click.option("--format", "format_name", required=True, type=click.Choice(list(FORMATS)), help="What to write.")
@click.option(
    "--output", "-o", metavar="FILE", help="Where to write it; - is standard output.  [default: RUN and its ending]"
)
@click.option("--endpoint", metavar="URL", help="With otlp: send it to the collector at URL, and write no file.")
@click.option("--content", is_flag=True, help="With otlp: arguments, outputs and messages too.")
@policy_option
@runs_dir_option
@json_option
def export(
    run: str,
    format_name: str,
    output: str | None,
    endpoint: str | None,
    content: bool,
    policy_file: Path | None,
    runs_dir: str,
    as_json: bool,
) -> None:
    """Write RUN in a format that other tools open.

    \b
    critiqor export run_001 --format perfetto              run_001.perfetto.json, for https://ui.perfetto.dev
    critiqor export run_001 --format speedscope            its CPU profiles, for https://www.speedscope.app
    critiqor export run_001 --format otlp --endpoint http://localhost:4318
                                                           its spans, for a collector, Phoenix, or any other backend
    critiqor export run_001 --format sarif                 its findings, for code scanning and editors
    critiqor export run_001 --format junit                 the rules of a policy as test cases, for a CI
    critiqor export run_001 --format zip                   evidence, diagnosis, timeline and report, with checksums

    perfetto, speedscope and otlp hold names, ids, times and figures; arguments, outputs and messages stay in the
    evidence unless --content asks for them. The others hold the diagnosis, which quotes some of it, and zip all of it.
    """
    from critiqor.exporters import SENT_FORMAT, Wishes
    from critiqor.storage.paths import paths_for

    if not paths_for(runs_dir).has_run(run) and Path(run).is_file():
        fix = f"critiqor timeline {run}   for a timeline; critiqor import {run}   to make a run of a trace"
        raise UsageError(f"{run} is a file, and only runs are exported", fix=fix)
    if (endpoint is not None or content) and format_name != SENT_FORMAT:
        raise UsageError("--endpoint and --content are for spans", fix=f"--format {SENT_FORMAT}")
    if policy_file is not None and format_name != "junit":
        raise UsageError("--policy is for test cases", fix="--format junit")
    wishes = Wishes(content, read_policy(policy_file), offline_pages)
    if endpoint is not None:
        if output is not None:
            raise UsageError("--endpoint sends, and --output writes", fix="leave one of them out")
        _send(run, endpoint, runs_dir, wishes, as_json=as_json)
    elif output == STDOUT and as_json:
        raise UsageError("--json would stand in the very output that --output - asks for", fix="leave one of them out")
    else:
        _write(run, format_name, output, runs_dir, wishes, as_json=as_json)


def _write(run: str, format_name: str, output: str | None, runs_dir: str, wishes: Wishes, *, as_json: bool) -> None:
    from critiqor.exporters import export_run

    with export_progress(f"writing {run} as {format_name}", run, runs_dir, to_stdout=output == STDOUT):
        written = export_run(run, format_name, output_target(format_name, output), runs_dir, wishes)
    if as_json:
        answer("export", written, "", as_json=True)
    else:
        _say_written(written)


def _send(run: str, endpoint: str, runs_dir: str, wishes: Wishes, *, as_json: bool) -> None:
    from critiqor.exporters import send_run

    with export_progress(f"sending {run}", run, runs_dir):
        sent = send_run(run, endpoint, runs_dir, wishes)
    if as_json:
        answer("export", sent, "", as_json=True)
    else:
        _say_sent(sent)


def _say_written(export: Export) -> None:
    for note in export.notes:
        say(note)
    where = "standard output" if export.file is None else export.file
    say(f"wrote {export.run_id} to {where}, {export.bytes} bytes\n  → open it in {export.opens_in}")


def _say_sent(sent: Sending) -> None:
    for note in sent.notes:
        say(note)
    rejected = f", which did not take {sent.rejected} of them" if sent.rejected else ""
    say(f"sent {sent.spans} spans of {sent.run_id} to {sent.endpoint}{rejected}")
