"""`critiqor profile RUN`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from critiqor.cli.completion_values import run_names
from critiqor.cli.hints import add_runs_dir
from critiqor.cli.options import json_option, runs_dir_option
from critiqor.cli.output import answer, say
from critiqor.errors import UsageError

if TYPE_CHECKING:
    from critiqor.model.profiles import ArtifactRequest


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("run", shell_complete=run_names)
@runs_dir_option
@click.option("--report", is_flag=True, help="Request a diagnostic report from each running Node process.")
@click.option(
    "--heap-snapshot",
    is_flag=True,
    help="Request a heap snapshot from each running Node process; a process is blocked while it writes one.",
)
@click.option("--markdown", is_flag=True, help="Print Markdown, for a ticket or a pull request.")
@json_option
def profile(run: str, runs_dir: str, report: bool, heap_snapshot: bool, markdown: bool, as_json: bool) -> None:
    """Summarise the deep profiles of RUN: functions by time, busiest windows, memory, trace events, reports.

    They exist if RUN was launched with `critiqor monitor openclaw --deep-profile`. Node writes most of them when it
    exits; reports and heap snapshots are written on request while it runs.
    """
    if report and heap_snapshot:
        raise UsageError("--report and --heap-snapshot cannot be combined", fix=f"critiqor profile {run} --report")
    if report or heap_snapshot:
        from critiqor.recording.profiling import request_artifacts

        request = request_artifacts(run, "diagnostic_report" if report else "heap_snapshot", runs_dir, say)
        answer("profile", request, _text(request), as_json=as_json)
        return
    from critiqor.run.store import Run
    from critiqor.timeline.profiles import profile_lines, profile_markdown, summarise_profiles

    summary = summarise_profiles(Run.load(run, runs_dir).profiles_folder)
    text = profile_markdown(summary) if markdown else "\n".join(profile_lines(summary))
    answer("profile", summary, text, as_json=as_json)


def _text(request: ArtifactRequest) -> str:
    from critiqor.model.formatting import counted, format_size

    lines = [f"pid {each.pid}: {each.file}, {format_size(each.bytes)}" for each in request.appeared]
    lines += [f"pid {pid}: no file was written in time" for pid in request.silent]
    if request.left_alone:
        lines.append(f"not asked: {counted(request.left_alone, 'process', 'processes')} of the run that cannot answer")
    if request.kind == "heap_snapshot":
        lines.append(
            "A heap snapshot contains the whole memory, including secrets. Open it in the DevTools of a browser."
        )
    else:
        lines.append(f"Next: {add_runs_dir(f'critiqor profile {request.run_id}')}")
    return "\n".join(lines)
