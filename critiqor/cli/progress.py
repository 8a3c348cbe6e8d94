"""How far long work has got: on standard error, where somebody looks on, and gone when it is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from critiqor.cli.output import shows_progress

if TYPE_CHECKING:
    from pathlib import Path

    from critiqor.model import Event

LEAST_BYTES = 2 << 20
"""Of a journal, or of evidence: with a smaller one all is done before anybody has read what is done."""


def sealing(run: str | None, runs_dir: str) -> AbstractContextManager[Callable[[Event], None] | None]:
    """Around the finalize of a run: what it yields is handed every event; None where there is nothing to show."""
    journal = _large_journal(run, runs_dir) if shows_progress() else None
    return nullcontext(None) if journal is None else _sealing(journal)


def counting(doing: str, noun: str) -> AbstractContextManager[Callable[[], None]]:
    """Around work of unknown size: what it yields is called once for each that is done."""
    return _counting(doing, noun) if shows_progress() else nullcontext(_ignored)


def writing(doing: str, run: str, runs_dir: str) -> AbstractContextManager[object]:
    """Around what reads a whole run and writes it elsewhere; it says nothing of a run that is read in a moment."""
    return _waiting(doing) if shows_progress() and _is_large(run, runs_dir) else nullcontext()


def _is_large(run: str, runs_dir: str) -> bool:
    from critiqor.errors import CritiqorError
    from critiqor.storage.paths import paths_for

    try:
        return paths_for(runs_dir).evidence_summary_path(run).stat().st_size >= LEAST_BYTES
    except (CritiqorError, OSError):
        return False  # whatever is wrong with the run, the verb says it


def _large_journal(run: str | None, runs_dir: str) -> Path | None:
    from critiqor.errors import CritiqorError
    from critiqor.run.lifecycle import load_active_session
    from critiqor.storage.paths import paths_for

    try:
        run_id = run or (load_active_session(runs_dir) or {}).get("run_id")
        journal = paths_for(runs_dir).journal_path(run_id) if run_id else None
        return journal if journal is not None and journal.stat().st_size >= LEAST_BYTES else None
    except (CritiqorError, OSError):
        return None  # whatever is wrong with the run, finalize says it


@contextmanager
def _sealing(journal: Path) -> Iterator[Callable[[Event], None]]:
    from critiqor.cli.terminal.working import working

    with working("sealing and diagnosing", "event", _lines_in(journal)) as advance:

        def observe(event: Event) -> None:
            advance()

        yield observe


@contextmanager
def _counting(doing: str, noun: str) -> Iterator[Callable[[], None]]:
    from critiqor.cli.terminal.working import working

    with working(doing, noun, None) as advance:
        yield advance


@contextmanager
def _waiting(doing: str) -> Iterator[None]:
    from critiqor.cli.terminal.working import working

    with working(doing, None, None):
        yield


def _ignored() -> None:
    """Nobody looks on."""


def _lines_in(journal: Path) -> int:
    with journal.open("rb", buffering=0) as file:
        return sum(data.count(b"\n") for data in iter(lambda: file.read(1 << 20), b""))
