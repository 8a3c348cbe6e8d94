"""A line on standard error that shows the progress of long work."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from critiqor.cli.terminal.cursor import restored_cursor
from critiqor.cli.terminal.screen import screen
from critiqor.cli.terminal.styled_text import untrusted

BATCH = 500
"""Number of items between two updates of the line: an update takes longer than most items."""


@contextmanager
def progress_line(
    description: str, noun: str | None, total: int | None, *, shows_rest: bool = False
) -> Iterator[Callable[[], None]]:
    """Show the line until the end of the block; yields a function to call for each of `total` items done.

    Without a noun nothing is counted: the line shows the description and the elapsed time. With `shows_rest`, for
    items that take long, it also shows how many are done in a second and how long the rest will take.
    """
    columns = [
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        *([BarColumn(bar_width=24)] if total else []),
        *([] if noun is None else [_count_column(total), TextColumn(f"{noun}s", markup=False)]),
        *([_RateColumn()] if shows_rest else []),
        TimeElapsedColumn(),
        *([TextColumn("rest", markup=False), TimeRemainingColumn()] if shows_rest else []),
    ]
    with restored_cursor(), Progress(*columns, console=screen(sys.stderr), transient=True) as progress:
        task = progress.add_task(untrusted(description, max_length=60).plain, total=total)
        done = 0

        def advance() -> None:
            nonlocal done
            done += 1
            if total is None or shows_rest or done % BATCH == 0:
                progress.update(task, completed=done)

        yield advance


class _RateColumn(ProgressColumn):
    """How many items are done in a second."""

    def render(self, task: Task) -> Text:
        speed = task.speed
        return Text("" if speed is None else f"{speed:.1f} a second")


def _count_column(total: int | None) -> MofNCompleteColumn | TextColumn:
    return MofNCompleteColumn(separator=" of ") if total else TextColumn("{task.completed:.0f}", markup=False)
