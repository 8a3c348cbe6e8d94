"""Text of `critiqor trends`: the runs of one agent over time, and which agent to choose."""

from __future__ import annotations

from collections.abc import Collection
from shlex import quote

from critiqor.cli.hints import add_runs_dir
from critiqor.cli.text_layout import page, table
from critiqor.comparison.commands import show_command
from critiqor.comparison.figures import FIGURE_LABELS, format_figure
from critiqor.comparison.trends import CauseTrend, RunPoint, Trends
from critiqor.errors import UnknownRunError, UsageError

FIGURES = ("trust", "confidence", "cost_usd", "wall_ms")
"""Figures that are shown for each run."""
Texts = dict[str, dict[str, str]]
"""Cost and time of each run."""


def trends_text(result: Trends, texts: Texts) -> str:
    """Return the runs of an agent in order of time, the recurring problems, and notes, as plain text."""
    lines = [title_of(result)]
    if result.runs:
        rows = [["run", "created", *(FIGURE_LABELS[name] for name in FIGURES), "main problem"]]
        for run in result.runs:
            rows.append(
                [run.run_id, run.created_at or "-", *figure_cells(run, texts), (run.primary_type or "-") + where(run)]
            )
        lines += ["", *table(rows)]
    if result.causes:
        lines += ["", *table([_row(cause) for cause in result.causes])]
    if notes := notes_of(result):
        lines += ["", *(f"  · {note}" for note in notes)]
    if result.runs:
        lines += ["", f"  Next: {add_runs_dir(show_command(result.runs[-1].run_id))}"]
    return page(lines)


def title_of(result: Trends) -> str:
    """Return the title of trends as text: agent, direction of trust, number of runs without a diagnosis."""
    undiagnosed = f", {len(result.undiagnosed)} without a diagnosis" * bool(result.undiagnosed)
    return f"{result.agent_id}: {result.summary}{undiagnosed}"


def figure_cells(run: RunPoint, texts: Texts) -> list[str]:
    """Return the figures of one run of a trend as text. `texts` has the cost and the time of each run."""
    known = texts.get(run.run_id, {})
    return [known.get(name, format_figure(name, getattr(run, name))) for name in FIGURES]


def where(run: RunPoint) -> str:
    """Return the worst session of a run and how the others are judged, as text; empty if it has not several."""
    return f" ({run.sessions})" if run.sessions else ""


def notes_of(result: Trends) -> list[str]:
    """Return the notes on trends as text: why runs are left out or cannot be compared."""
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
    """Return the first run with a recurring cause and the last one, as text."""
    since = f"since {cause.first_run} ({_day(cause.first_at)})"
    until = "still there" if cause.in_latest else f"last in {cause.last_run} ({_day(cause.last_at)})"
    return f"{since}, {until}"


def _day(moment: str | None) -> str:
    return (moment or "unknown")[:10]


def choose_agent(agents: Collection[str], wanted: str | None, place: str = "this runs folder", option: str = "") -> str:
    """Return the agent whose trends a user wants, or the only one. Raise an error with the commands to choose from."""
    if not agents:
        fix = "critiqor monitor openclaw" if not option else "critiqor fleet reindex"
        raise UnknownRunError(f"there are no runs to show in {place}", fix=fix)
    if wanted in agents or (wanted is None and len(agents) == 1):
        return wanted or next(iter(agents))
    message = f"{place} has runs of several agents" if wanted is None else f"there are no runs of {wanted!r}"
    commands = [f"critiqor trends{option} --agent {quote(name)}".replace("\n", " ") for name in sorted(agents)]
    raise UsageError(message, fix="\n    ".join(commands))


def refuse_tenants(tenants: Collection[str], agent: str, option: str = "") -> None:
    """Raise an error with the `critiqor trends` commands to choose from, if agents of several tenants have a name."""
    if len(tenants) > 1:
        options = [f"--agent {quote(agent)} --tenant {quote(tenant)}".replace("\n", " ") for tenant in sorted(tenants)]
        message = f"the runs of {agent!r} belong to several tenants"
        raise UsageError(message, fix="\n    ".join(f"critiqor trends{option} {each}" for each in options))
