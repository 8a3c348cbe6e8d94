"""The runs of a folder on a terminal: one a line under titles, with a bar for trust."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.text import Text

from critiqor.cli.hints import add_runs_dir
from critiqor.cli.listed_runs import ListedRun
from critiqor.cli.terminal.bars import bar, score_style, sparkline
from critiqor.cli.terminal.screen import FAINT, next_command, styled, untrusted
from critiqor.model.formatting import counted

MOST_SHOWN = 50
"""Runs on a screen; the newest."""
WIDE_BAR, NARROW_BAR = 10, 4
SPARKS = 30
GUTTER = 2
JUDGED, PRICED, ROOMY, DATED, WHOSE = 50, 60, 90, 100, 120
"""Columns that a terminal needs for the verdict on a run, for its cost, for wide bars, its date, and its agent."""
VERDICTS = {"ready": "green", "review": "yellow", "unsafe": "red"}


def runs_drawing(listed: Sequence[ListedRun], nothing: str) -> Group:
    """Runs, the newest first; `nothing` is said where there are none."""
    if not listed:
        return Group(untrusted(nothing), next_command("critiqor monitor openclaw"))
    return Group(*_parts(listed))


def _parts(listed: Sequence[ListedRun]) -> Iterator[RenderableType]:
    trusts = [run.trust for run in reversed(listed) if run.trust is not None]
    title = styled(counted(len(listed), "run"), "bold")
    if len(trusts) > 1:
        title.append("   trust, oldest to newest ", FAINT).append(sparkline(trusts, SPARKS, 100))
    yield title
    yield Text()
    yield RunsTable(listed[:MOST_SHOWN])
    if len(listed) > MOST_SHOWN:
        yield Text(
            f"and {len(listed) - MOST_SHOWN:,} older: {add_runs_dir('critiqor runs --json')} has them all", FAINT
        )
    yield next_command(f"critiqor show {listed[0].run_id}")


class RunsTable:
    """As many columns as the terminal has room for, and a headline that is cut to what is left."""

    def __init__(self, listed: Sequence[ListedRun]) -> None:
        self._listed = listed

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        width = options.max_width
        cells = [_cells(run, width) for run in self._listed]
        rows = [[Text(title, FAINT) for title in cells[0]], *(list(row.values()) for row in cells)]
        widths = [max(cell.cell_len for cell in column) for column in zip(*rows, strict=True)]
        for row in rows:
            line = Text()
            for cell, columns in zip(row[:-1], widths, strict=False):
                line.append_text(cell).append(" " * (columns - cell.cell_len + GUTTER))
            line.append_text(row[-1])
            line.truncate(width, overflow="ellipsis")
            yield line


def _cells(run: ListedRun, width: int) -> dict[str, Text]:
    """By their titles."""
    cells = {
        "run": untrusted(run.run_id, "bold", max_length=20),
        "trust": _trust(run, WIDE_BAR if width >= ROOMY else NARROW_BAR),
    }
    if width >= JUDGED:
        cells["verdict"] = Text(run.verdict or "-", VERDICTS.get(run.verdict or "", ""))
    if width >= PRICED:
        cells["cost"] = Text(run.cost)
    if width >= DATED:
        cells["created"] = untrusted(_date(run.created_at), FAINT)
    if width >= WHOSE:
        cells["agent"] = untrusted(run.agent_id or "-", max_length=20)
    return {**cells, "what happened": untrusted(run.headline or "", max_length=200)}


def _trust(run: ListedRun, width: int) -> Text:
    if run.trust is not None:
        return bar(run.trust / 100, width, score_style(run.trust)).append(f" {run.trust:>3}")
    if run.verdict is not None:
        return Text("unknown", "yellow")
    status = "ended, not finalized" if run.ended else run.status.lower()
    return untrusted(status, "red" if run.status == "UNREADABLE" else "yellow")


def _date(created_at: str | None) -> str:
    return (created_at or "-")[:16].replace("T", " ")
