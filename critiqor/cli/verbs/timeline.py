"""`critiqor timeline RUN`, `critiqor timeline FILE`, `critiqor timeline RUN RUN RUN…`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from critiqor.cli.completion_values import run_or_file_names
from critiqor.cli.options import json_option, runs_dir_option
from critiqor.cli.output import answer, say_if_unproven

if TYPE_CHECKING:
    from rich.console import RenderableType

    from critiqor.model.timeline import RepeatedTimings, TimelineSummary
    from critiqor.run.store import RunStore
    from critiqor.timeline.reports.layout import Part


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("what", metavar="RUN|FILE…", nargs=-1, required=True, shell_complete=run_or_file_names)
@runs_dir_option
@click.option("--markdown", is_flag=True, help="Print Markdown, for a ticket or a pull request.")
@json_option
def timeline(what: tuple[str, ...], runs_dir: str, markdown: bool, as_json: bool) -> None:
    """Show where the time went: the diagnostics timeline that OpenClaw wrote during RUN, or any timeline FILE.

    For a run, each agent run is split with the recorder's events: before the provider, provider, tools, after. Several
    runs or files count as repetitions of one run: median, p95, maximum and variance of start-up, turns and spans.
    """
    from critiqor.run.store import RunStore
    from critiqor.run.timing import read_timing, repeat_timings
    from critiqor.run.view import RunView
    from critiqor.timeline.reports.layout import as_lines, as_markdown
    from critiqor.timeline.reports.repetition_report import repetition_parts
    from critiqor.timeline.reports.timeline_report import timeline_parts

    store = RunStore(runs_dir)
    for name in what:
        if name in store and (view := RunView(store.run(name))).is_sealed:
            say_if_unproven(view)
    timing: TimelineSummary | RepeatedTimings
    if len(what) == 1:
        timing = read_timing(what[0], store)
        parts = list(timeline_parts(timing))
    else:
        timing = repeat_timings(what, store)
        parts = repetition_parts(timing)
    text = as_markdown(parts) if markdown else "\n".join(as_lines(parts))
    drawing = None if markdown else lambda: _drawing(what, timing, parts, store)
    answer("timeline", timing, text, as_json=as_json, drawing=drawing)


def _drawing(
    what: tuple[str, ...], timing: TimelineSummary | RepeatedTimings, parts: list[Part], store: RunStore
) -> RenderableType:
    from critiqor.cli.drawings.timeline import report_drawing, timing_drawing
    from critiqor.cli.terminal.lane_chart import run_lanes
    from critiqor.model.timeline import TimelineSummary

    if not isinstance(timing, TimelineSummary):
        return report_drawing(parts)
    [name] = what
    if name not in store:
        return timing_drawing(timing, [], parts)
    return timing_drawing(timing, run_lanes(store.run(name), timing.stalls), parts, f"critiqor show {name}")
