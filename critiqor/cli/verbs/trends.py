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

    from critiqor.comparison.trends import CauseTrend, Trends
    from critiqor.model.report import RunSummary


FIGURES = ("trust", "confidence", "cost_usd", "wall_ms")
"""What is shown of each run."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@runs_dir_option
@click.option("--agent", help="Whose runs.  [default: the only agent of this folder]")
@click.option("--last", type=click.IntRange(min=1), metavar="N", help="Only the newest N runs.")
@json_option
def trends(runs_dir: str, agent: str | None, last: int | None, as_json: bool) -> None:
    """Follow the runs of one agent over time: trust, cost, time, and which problems come back."""
    from critiqor.comparison.trends import trends_of
    from critiqor.run.diagnosis import run_summaries

    cases = run_summaries(runs_dir)
    result = trends_of(_agent(cases, agent), cases, last)
    answer("trends", result, _text(result), as_json=as_json, drawing=lambda: _drawing(result))


def _drawing(result: Trends) -> RenderableType:
    from critiqor.cli.views.trends import trends_drawing

    return trends_drawing(result, _notes(result))


def _agent(cases: Sequence[RunSummary], wanted: str | None) -> str:
    from shlex import quote

    agents = sorted({case.metadata.agent_id for case in cases if case.metadata})
    if not agents:
        raise UnknownRunError("there are no runs to follow in this runs folder", fix="critiqor monitor openclaw")
    if wanted in agents or (wanted is None and len(agents) == 1):
        return wanted or agents[0]
    message = "this runs folder has runs of several agents" if wanted is None else f"there are no runs of {wanted!r}"
    commands = [f"critiqor trends --agent {quote(name)}".replace("\n", " ") for name in agents]
    raise UsageError(message, fix="\n    ".join(commands))


def _text(result: Trends) -> str:
    from critiqor.cli.wording import LABELS, figure, page, table

    lines = [title_of(result)]
    if result.runs:
        rows = [["run", "created", *(LABELS[name] for name in FIGURES), "main problem"]]
        for run in result.runs:
            told = (figure(name, getattr(run, name)) for name in FIGURES)
            rows.append([run.run_id, run.created_at or "-", *told, run.primary_type or "-"])
        lines += ["", *table(rows)]
    if result.causes:
        lines += ["", *table([_row(cause) for cause in result.causes])]
    if notes := _notes(result):
        lines += ["", *(f"  · {note}" for note in notes)]
    if result.runs:
        lines += ["", f"  Next: {add_runs_dir(f'critiqor show {result.runs[-1].run_id}')}"]
    return page(lines)


def title_of(result: Trends) -> str:
    """Whose runs they are, and where they are going."""
    undiagnosed = f", {len(result.undiagnosed)} without a diagnosis" * bool(result.undiagnosed)
    return f"{result.agent_id}: {result.summary}{undiagnosed}"


def _notes(result: Trends) -> list[str]:
    notes = [
        *result.notes,
        *(run.reason + f": {add_runs_dir(run.fix or '')}" * bool(run.fix) for run in result.undiagnosed),
    ]
    if result.unreadable:
        notes.append(f"records that cannot be read, whoever's they are: {', '.join(result.unreadable)}")
    return notes


def _row(cause: CauseTrend) -> list[str]:
    return [f"in {cause.runs} of {cause.of} runs", cause.severity, cause.cause, when(cause)]


def when(cause: CauseTrend) -> str:
    """From which run to which a cause was seen."""
    since = f"since {cause.first_run} ({_day(cause.first_at)})"
    until = "still there" if cause.in_latest else f"last in {cause.last_run} ({_day(cause.last_at)})"
    return f"{since}, {until}"


def _day(moment: str | None) -> str:
    return (moment or "unknown")[:10]
