"""Progress of long work: a line on standard error, shown only on a terminal and removed at the end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from critiqor.cli.output import is_quiet
from critiqor.cli.terminal.capabilities import can_draw

if TYPE_CHECKING:
    from pathlib import Path

    from critiqor.model import Event

MIN_BYTES = 2 << 20
"""Minimum size in bytes of a journal or of evidence for which progress is shown; smaller ones finish too fast."""


def shows_progress() -> bool:
    """Return whether progress is shown: standard error is a terminal, and --quiet is not set."""
    return can_draw(sys.stderr) and not is_quiet()


def finalize_progress(
    run: str | None, runs_dir: str, slot: str | None = None
) -> AbstractContextManager[Callable[[Event], None] | None]:
    """Show progress while a run is finalized; yields the observer of events, or None if nothing is shown."""
    journal = _large_journal(run, runs_dir, slot) if shows_progress() else None
    return nullcontext(None) if journal is None else _count_events(journal)


def count_progress(description: str, noun: str) -> AbstractContextManager[Callable[[], None]]:
    """Show progress of work of unknown size; yields a function to call once for each item done."""
    return _count_items(description, noun) if shows_progress() else nullcontext(_ignore)


def work_progress(description: str, noun: str, total: Callable[[], int]) -> AbstractContextManager[Callable[[], None]]:
    """Show progress, rate and rest of slow work; yields a function to call once for each item done.

    `total` is called only if progress is shown.
    """
    return _count_slow(description, noun, total()) if shows_progress() else nullcontext(_ignore)


def export_progress(
    description: str, run: str, runs_dir: str, *, to_stdout: bool = False
) -> AbstractContextManager[object]:
    """Show that a large run is being written.

    Nothing is shown when writing to a stream, which may be printed on the same terminal.
    """
    is_shown = not to_stdout and shows_progress() and _is_large(run, runs_dir)
    return _wait(description) if is_shown else nullcontext()


def _is_large(run: str, runs_dir: str) -> bool:
    from critiqor.errors import CritiqorError
    from critiqor.storage.paths import paths_for

    try:
        return paths_for(runs_dir).evidence_summary_path(run).stat().st_size >= MIN_BYTES
    except (CritiqorError, OSError):
        return False  # the verb reports what is wrong with the run


def _large_journal(run: str | None, runs_dir: str, slot: str | None) -> Path | None:
    from critiqor.errors import CritiqorError
    from critiqor.session import load_active_session, paths_for

    try:
        run_id = run or (load_active_session(runs_dir, slot) or {}).get("run_id")
        journal = paths_for(runs_dir).journal_path(run_id) if run_id else None
        return journal if journal is not None and journal.stat().st_size >= MIN_BYTES else None
    except (CritiqorError, OSError):
        return None  # the verb reports what is wrong with the run


@contextmanager
def _count_events(journal: Path) -> Iterator[Callable[[Event], None]]:
    from critiqor.cli.terminal.progress_line import progress_line

    with progress_line("sealing and diagnosing", "event", _count_lines(journal)) as advance:

        def observe(event: Event) -> None:
            advance()

        yield observe


@contextmanager
def _count_items(description: str, noun: str) -> Iterator[Callable[[], None]]:
    from critiqor.cli.terminal.progress_line import progress_line

    with progress_line(description, noun, None) as advance:
        yield advance


@contextmanager
def _count_slow(description: str, noun: str, total: int) -> Iterator[Callable[[], None]]:
    from critiqor.cli.terminal.progress_line import progress_line

    with progress_line(description, noun, total, shows_rest=True) as advance:
        yield advance


@contextmanager
def _wait(description: str) -> Iterator[None]:
    from critiqor.cli.terminal.progress_line import progress_line

    with progress_line(description, None, None):
        yield


def _ignore() -> None:
    """Do nothing: no progress is shown."""


def _count_lines(journal: Path) -> int:
    from critiqor.storage import open_regular_file

    with open_regular_file(journal) as file:
        return sum(data.count(b"\n") for data in iter(lambda: file.read(1 << 20), b""))
