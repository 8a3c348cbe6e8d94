"""`critiqor export RUN --format FORMAT`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from critiqor.cli.completion_values import run_names
from critiqor.cli.export_options import STDOUT, FormatChoice, output_target
from critiqor.cli.options import json_option, policy_option, read_policy_option, runs_dir_option
from critiqor.cli.output import answer, say
from critiqor.cli.progress import export_progress
from critiqor.dashboard import offline_pages
from critiqor.errors import UsageError

if TYPE_CHECKING:
    from critiqor.exporters import Export, ExportOptions, Sending
    from critiqor.run.store import Run


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("run", shell_complete=run_names)
@click.option(
    "--format", "format_name", required=True, type=FormatChoice(), help="What to write; extensions can add formats."
)
@click.option(
    "--output",
    "-o",
    metavar="FILE",
    help="Output file; - is standard output.  [default: RUN with the extension of the format]",
)
@click.option("--endpoint", metavar="URL", help="With otlp: send it to the collector at URL instead of writing a file.")
@click.option("--content", is_flag=True, help="With otlp: include arguments, outputs and messages.")
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
    critiqor export run_001 --format junit                 the rules of a policy as test cases, for CI
    critiqor export run_001 --format zip                   evidence, diagnosis, timeline and report, with checksums

    perfetto, speedscope and otlp contain names, ids, times and numbers; arguments, outputs and messages are only
    included with --content. The other formats contain the diagnosis, which quotes some of them; zip has all of them.
    """
    from critiqor.exporters import SENT_FORMAT, ExportOptions
    from critiqor.run.store import RunStore

    store = RunStore(runs_dir)
    if run not in store and Path(run).is_file():
        fix = f"for a timeline file: critiqor timeline {run}; to import a trace as a run: critiqor import {run}"
        raise UsageError(f"{run} is a file, but only runs can be exported", fix=fix)
    if (endpoint is not None or content) and format_name != SENT_FORMAT:
        raise UsageError("--endpoint and --content require --format otlp", fix=f"--format {SENT_FORMAT}")
    if policy_file is not None and format_name != "junit":
        raise UsageError("--policy requires --format junit", fix="--format junit")
    options = ExportOptions(content, read_policy_option(policy_file), offline_pages)
    if endpoint is not None:
        if output is not None:
            raise UsageError("--endpoint and --output cannot be combined", fix="leave one of them out")
        _send(store.run(run), endpoint, options, as_json=as_json)
    elif output == STDOUT and as_json:
        raise UsageError("--json and --output - both write to standard output", fix="leave one of them out")
    else:
        _write(store.run(run), format_name, output, options, as_json=as_json)


def _write(run: Run, format_name: str, output: str | None, options: ExportOptions, *, as_json: bool) -> None:
    from critiqor.exporters import export_run

    with export_progress(
        f"writing {run.id} as {format_name}", run.id, str(run.store.runs_dir), to_stdout=output == STDOUT
    ):
        written = export_run(run, format_name, output_target(format_name, output), options)
    if as_json:
        answer("export", written, "", as_json=True)
    else:
        _say_written(written)


def _send(run: Run, endpoint: str, options: ExportOptions, *, as_json: bool) -> None:
    from critiqor.exporters import send_run
    from critiqor.live.span_sender import forget_waiting

    with export_progress(f"sending {run.id}", run.id, str(run.store.runs_dir)):
        sent = send_run(run, endpoint, options)
    forget_waiting(run, sent.endpoint)
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
    rejected = f", which rejected {sent.rejected} of them" if sent.rejected else ""
    say(f"sent {sent.spans} spans of {sent.run_id} to {sent.endpoint}{rejected}")
