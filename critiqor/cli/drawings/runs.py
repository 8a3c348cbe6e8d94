"""Drawing of `critiqor runs`: a table with one line per run, and a bar for trust."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.text import Text

from critiqor.cli.hints import add_runs_dir
from critiqor.cli.run_list import ListedRun, RunRow
from critiqor.cli.terminal.bars import bar, sparkline
from critiqor.cli.terminal.styled_text import FAINT, READINESSES, indented, next_command, score_style, styled, untrusted
from critiqor.comparison.commands import show_command
from critiqor.model.formatting import counted

MAX_SHOWN = 50
"""Maximum number of runs that are shown, the newest ones."""
WIDE_BAR, NARROW_BAR = 10, 4
SPARKS = 30
GUTTER = 2
MIN_WIDTH_VERDICT, MIN_WIDTH_COST, MIN_WIDTH_WIDE_BAR, MIN_WIDTH_DATE, MIN_WIDTH_AGENT = 50, 60, 90, 100, 120
"""Minimum terminal columns for the verdict, the cost, wide bars, the date, and the agent."""


def runs_drawing(rows: Sequence[RunRow], no_runs: str) -> Group:
    """Draw runs, the newest first; `no_runs` is shown if there are none."""
    if not rows:
        return Group(untrusted(no_runs), next_command("critiqor monitor openclaw"))
    return Group(*_parts(rows))


def _parts(rows: Sequence[RunRow]) -> Iterator[RenderableType]:
    by_time = sorted(rows, key=lambda row: _age(row.run))
    trusts = [row.run.trust for row in by_time if row.run.trust is not None]
    title = styled(counted(len(rows), "run"), "bold")
    if len(trusts) > 1:
        title.append("   trust, oldest to newest ", FAINT).append(sparkline(trusts, SPARKS, 100))
    yield title
    yield Text()
    yield RunsTable(rows[:MAX_SHOWN])
    if len(rows) > MAX_SHOWN:
        yield Text(f"and {len(rows) - MAX_SHOWN:,} more: {add_runs_dir('critiqor runs --json')} has them all", FAINT)
    first = rows[0].run
    yield next_command(f"critiqor recover {first.run_id}" if first.status == "LOST" else show_command(first.run_id))


def _age(run: ListedRun) -> tuple[str, int, str]:
    """Return a key that sorts runs by age: those of a folder by number, those of several hosts, `HOST/RUN`, by time."""
    return (run.created_at or "" if "/" in run.run_id else "", len(run.run_id), run.run_id)


class RunsTable:
    """A table with as many columns as fit, and headlines cut to the remaining width."""

    def __init__(self, rows: Sequence[RunRow]) -> None:
        self._rows = rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        width = options.max_width
        cells = [_cells(row, width) for row in self._rows]
        rows = [[Text(title, FAINT) for title in cells[0]], *(list(row.values()) for row in cells)]
        widths = [max(cell.cell_len for cell in column) for column in zip(*rows, strict=True)]
        for row, below in zip(rows, ["", *(row.run.sessions or "" for row in self._rows)], strict=True):
            line = Text()
            for cell, columns in zip(row[:-1], widths, strict=False):
                line.append_text(cell).append(" " * (columns - cell.cell_len + GUTTER))
            line.append_text(row[-1])
            line.truncate(width, overflow="ellipsis")
            yield line
            if below:  # on a line of its own, because long headlines would leave no room for it
                yield indented(untrusted(below, FAINT))


def _cells(row: RunRow, width: int) -> dict[str, Text]:
    """Return the cells of a row by their titles."""
    run = row.run
    cells = {
        "run": untrusted(run.run_id, "bold", max_length=60 if "/" in run.run_id else 20),
        "trust": _trust(run, WIDE_BAR if width >= MIN_WIDTH_WIDE_BAR else NARROW_BAR),
    }
    if width >= MIN_WIDTH_VERDICT:
        cells["verdict"] = Text(run.verdict or "-", READINESSES.get(run.verdict or "", ""))
    if width >= MIN_WIDTH_COST:
        cells["cost"] = Text(row.cost)
    if width >= MIN_WIDTH_DATE:
        cells["created"] = untrusted(_date(run.created_at), FAINT)
    if width >= MIN_WIDTH_AGENT:
        cells["agent"] = untrusted(run.agent_id or "-", max_length=20)
    return {**cells, "what happened": untrusted(run.headline or "", max_length=300)}


def _trust(run: ListedRun, width: int) -> Text:
    if run.trust is not None:
        return bar(run.trust / 100, width, score_style(run.trust)).append(f" {run.trust:>3}")
    if run.verdict is not None:
        return Text("unknown", "yellow")
    status = "ended, not finalized" if run.ended else run.status.lower()
    return untrusted(status, "red" if run.status == "UNREADABLE" else "yellow")


def _date(created_at: str | None) -> str:
    """Return when a run began, in local time."""
    try:
        return f"{datetime.fromisoformat(created_at or '').astimezone():%Y-%m-%d %H:%M}"
    except (ValueError, OverflowError):
        return (created_at or "-")[:16]
