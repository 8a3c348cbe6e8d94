"""Integrity of a run: whether its evidence is still what was sealed, checked again only if a file changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from critiqor.errors import CritiqorError
from critiqor.model import RunHead
from critiqor.model.verdict import Integrity
from critiqor.run.store import Run
from critiqor.storage.verification import check_integrity

IntegrityCheck = Callable[[Run, RunHead, str | None], Integrity]


def check_run_integrity(run: Run, head: RunHead, diagnosed: str | None) -> Integrity:
    """Compare the evidence of a run with its seal and the diagnosed digest. Unreadable evidence is not intact."""
    try:
        return check_integrity(run.paths, head, diagnosed)
    except (CritiqorError, OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        return Integrity(state="changed", explanation=f"the evidence cannot be read: {reason}")


class _FileState(NamedTuple):
    """Stat values that show whether a file has changed since it was read."""

    size: int
    modified_ns: int
    inode: int
    changed_ns: int


class IntegrityCache:
    """Cache of the integrity of runs; a run is checked again only if one of its files changed."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[_FileState | None, ...], Integrity]] = {}

    def check(self, run: Run, head: RunHead, diagnosed: str | None) -> Integrity:
        """Return the integrity of a run, from the cache if none of its files changed."""
        states = file_states(run)
        known = self._known.get(run.id)
        if known is None or known[0] != states:
            known = self._known[run.id] = (states, check_run_integrity(run, head, diagnosed))
        return known[1]


def file_states(run: Run) -> tuple[_FileState | None, ...]:
    """Return the states of the files that decide the integrity of a run: record, evidence, diagnosis, timeline."""
    return tuple(map(_state, (run.record_path, run.evidence_path, run.diagnosis_path, run.timeline_path)))


def _state(path: Path) -> _FileState | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    return _FileState(found.st_size, found.st_mtime_ns, found.st_ino, found.st_ctime_ns)
