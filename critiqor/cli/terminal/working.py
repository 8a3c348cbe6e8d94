"""A line on standard error that says how far long work has got."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from critiqor.cli.terminal.cursor import cursor_shown_again
from critiqor.cli.terminal.screen import harmless, screen

STEP = 500
"""Units of work between two times that the line is told of them: telling takes longer than most of them."""


@contextmanager
def working(doing: str, noun: str | None, total: int | None) -> Iterator[Callable[[], None]]:
    """Show the line until the end of the block; the result is called for each of `total` that is done.

    Without a noun nothing is counted: the line says what is done, and for how long.
    """
    columns = [
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        *([BarColumn(bar_width=24)] if total else []),
        *([] if noun is None else [_counted(total), TextColumn(f"{noun}s", markup=False)]),
        TimeElapsedColumn(),
    ]
    with cursor_shown_again(), Progress(*columns, console=screen(sys.stderr), transient=True) as progress:
        task = progress.add_task(harmless(doing, 60), total=total)
        done = 0

        def advance() -> None:
            nonlocal done
            done += 1
            if total is None or done % STEP == 0:
                progress.update(task, completed=done)

        yield advance


def _counted(total: int | None) -> MofNCompleteColumn | TextColumn:
    return MofNCompleteColumn(separator=" of ") if total else TextColumn("{task.completed:.0f}", markup=False)
