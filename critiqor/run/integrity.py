"""Integrity of a run: whether its evidence is still what was sealed, checked again only if a file changed."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache, lru_cache
from typing import NamedTuple

import msgspec

from critiqor.errors import CritiqorError
from critiqor.model import RunHead
from critiqor.model.verdict import Integrity
from critiqor.run.store import Run
from critiqor.storage import paths_for
from critiqor.storage.seals.diagnosis_seal import diagnosis_problem, read_diagnosis_seal
from critiqor.storage.seals.digests import file_digest, sealed_file_problems
from critiqor.storage.seals.record_digest import record_problem

IntegrityCheck = Callable[[Run, RunHead, str | None], Integrity]


def check_run_integrity(run: Run, head: RunHead, diagnosed: str | None) -> Integrity:
    """Compare the evidence of a run with its seal and with the diagnosed digest. Unreadable evidence is not intact.

    `diagnosed` is the digest in the diagnosis, None where there is none. `critiqor verify` also locates differences.
    """
    try:
        return _compare_digests(run, head, diagnosed)
    except (CritiqorError, OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        return Integrity(state="changed", explanation=f"the evidence cannot be read: {reason}")


def _compare_digests(run: Run, head: RunHead, diagnosed: str | None) -> Integrity:
    if head.seal is None:
        return Integrity(state="not sealed", explanation="the evidence is not sealed yet")
    document = run.evidence_path
    found = file_digest(document)
    if found is None:
        return Integrity(state="missing", explanation=f"the evidence is gone: there is no {document.name}")
    if found != head.seal.digest:
        changed = f"{document.name} was changed"
        return Integrity(state="changed", explanation=f"the evidence was changed after sealing: {changed}")
    coverage = run.coverage()
    problems = sealed_file_problems(run.timeline_path, coverage.timeline)
    problems += sealed_file_problems(run.paths.carried_path(run.id), coverage.carried)
    if problems:
        return Integrity(state="changed", explanation=f"the evidence was changed after sealing: {problems[0]}")
    if (problem := record_problem(head)) is not None:
        return Integrity(state="changed", explanation=f"the run record was changed after sealing: {problem}")
    if diagnosed != found:
        return Integrity(state="other", explanation="the diagnosis is missing or does not match the sealed evidence")
    sealed = read_diagnosis_seal(run.diagnosis_path)
    if (problem := diagnosis_problem(sealed, is_required=head.seal.record is not None)) is not None:
        return Integrity(state="other", explanation=f"the diagnosis is not the one that was made: {problem}")
    return Integrity(state="intact", explanation="the evidence is unchanged since sealing")


class FileState(NamedTuple):
    """Stat values that show whether a file has changed since it was read."""

    size: int
    modified_ns: int
    inode: int
    changed_ns: int


class IntegrityCache:
    """Cache of the integrity of runs; a run is checked again only if one of its files changed."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[FileState | None, ...], Integrity]] = {}

    def check(self, run: Run, head: RunHead, diagnosed: str | None) -> Integrity:
        """Return the integrity of a run, from the cache if none of its files changed."""
        states = file_states(run)
        known = self._known.get(run.id)
        if known is None or known[0] != states:
            known = self._known[run.id] = (states, check_run_integrity(run, head, diagnosed))
        return known[1]


def file_states(run: Run) -> tuple[FileState | None, ...]:
    """Return the states of the files on which the integrity of a run depends, such as record and evidence."""
    return tuple(map(_state, _state_paths(run)))


@lru_cache(1 << 14)
def _state_paths(run: Run) -> tuple[str, ...]:
    """Return the paths of these files. The list of thousands of runs looks at them for every request."""
    folder = str(run.folder)
    return (f"{folder}.json", *(f"{folder}/{name}" for name in _names_in_folder()))


@cache
def _names_in_folder() -> tuple[str, ...]:
    run = Run("run_001", paths_for("runs"))  # the names are the same for every run
    beside = (run.paths.visibility_path(run.id), run.paths.annotations_path(run.id), run.paths.carried_path(run.id))
    files = (*beside, run.evidence_path, run.diagnosis_path, run.timeline_path)
    return tuple(str(file.relative_to(run.folder)) for file in files)


def _state(path: str) -> FileState | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return FileState(found.st_size, found.st_mtime_ns, found.st_ino, found.st_ctime_ns)
