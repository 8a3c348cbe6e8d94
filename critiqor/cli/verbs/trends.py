"""`critiqor trends`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from critiqor.cli.hints import add_runs_dir
from critiqor.cli.options import json_option, runs_dir_option
from critiqor.cli.output import answer
from critiqor.errors import UnknownRunError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from critiqor.comparison.trends import CauseTrend, RunPoint, Trends
    from critiqor.model.report import RunSummary

    Texts = dict[str, dict[str, str]]


FIGURES = ("trust", "confidence", "cost_usd", "wall_ms")
"""Figures that are shown for each run."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@runs_dir_option
@click.option("--agent", help="Agent whose runs to show.  [default: the only agent in this folder]")
@click.option("--last", type=click.IntRange(min=1), metavar="N", help="Only the newest N runs.")
@json_option
def trends(runs_dir: str, agent: str | None, last: int | None, as_json: bool) -> None:
    """Follow the runs of one agent over time: trust, cost, time, and recurring problems."""
    from critiqor.comparison.trends import trends_of
    from critiqor.model.formatting import format_figures
    from critiqor.model.verdict import fresh_verdict
    from critiqor.run.store import RunStore
    from critiqor.run.view import summarize_runs

    summaries = summarize_runs(RunStore(runs_dir))
    result = trends_of(_agent(summaries, agent), summaries, last)
    diagnoses = {run.run_id: run.diagnosis for run in summaries if run.diagnosis is not None}
    texts = {run_id: format_figures(each, fresh_verdict(each)) for run_id, each in diagnoses.items()}
    answer("trends", result, _text(result, texts), as_json=as_json, drawing=lambda: _drawing(result, texts))


def _drawing(result: Trends, texts: Texts) -> RenderableType:
    from critiqor.cli.drawings.trends import trends_drawing

    return trends_drawing(result, _notes(result), texts)


def figure_cells(run: RunPoint, texts: Texts) -> list[str]:
    """Return the figures of one run. `texts` has the cost and the time of each run."""
    from critiqor.model.formatting import format_figure

    known = texts.get(run.run_id, {})
    return [known.get(name, format_figure(name, getattr(run, name))) for name in FIGURES]


def _agent(summaries: Sequence[RunSummary], wanted: str | None) -> str:
    from shlex import quote

    agents = sorted({summary.metadata.agent_id for summary in summaries if summary.metadata})
    if not agents:
        raise UnknownRunError("there are no runs to show in this runs folder", fix="critiqor monitor openclaw")
    if wanted in agents or (wanted is None and len(agents) == 1):
        return wanted or agents[0]
    message = "this runs folder has runs of several agents" if wanted is None else f"there are no runs of {wanted!r}"
    commands = [f"critiqor trends --agent {quote(name)}".replace("\n", " ") for name in agents]
    raise UsageError(message, fix="\n    ".join(commands))


def _text(result: Trends, texts: Texts) -> str:
    from critiqor.cli.text_layout import page, table
    from critiqor.model.formatting import FIGURE_LABELS

    lines = [title_of(result)]
    if result.runs:
        rows = [["run", "created", *(FIGURE_LABELS[name] for name in FIGURES), "main problem"]]
        for run in result.runs:
            rows.append([run.run_id, run.created_at or "-", *figure_cells(run, texts), run.primary_type or "-"])
        lines += ["", *table(rows)]
    if result.causes:
        lines += ["", *table([_row(cause) for cause in result.causes])]
    if notes := _notes(result):
        lines += ["", *(f"  · {note}" for note in notes)]
    if result.runs:
        lines += ["", f"  Next: {add_runs_dir(f'critiqor show {result.runs[-1].run_id}')}"]
    return page(lines)


def title_of(result: Trends) -> str:
    """Return the agent of the runs, the direction of their trust, and the number of runs without a diagnosis."""
    undiagnosed = f", {len(result.undiagnosed)} without a diagnosis" * bool(result.undiagnosed)
    return f"{result.agent_id}: {result.summary}{undiagnosed}"


def _notes(result: Trends) -> list[str]:
    notes = [
        *result.notes,
        *(run.reason + f": {add_runs_dir(run.fix or '')}" * bool(run.fix) for run in result.undiagnosed),
    ]
    if result.unreadable:
        notes.append(f"run records that cannot be read (all agents): {', '.join(result.unreadable)}")
    return notes


def _row(cause: CauseTrend) -> list[str]:
    return [f"in {cause.runs} of {cause.of} runs", cause.severity, cause.cause, when(cause)]


def when(cause: CauseTrend) -> str:
    """Return the first run with a cause and the last one, as text."""
    since = f"since {cause.first_run} ({_day(cause.first_at)})"
    until = "still there" if cause.in_latest else f"last in {cause.last_run} ({_day(cause.last_at)})"
    return f"{since}, {until}"


def _day(moment: str | None) -> str:
    return (moment or "unknown")[:10]
