"""Remove runs by the rules of a retention: never one that is being recorded or that was not sealed.

The folder of a run is renamed before its record is deleted, and deleted last. A process that is killed in between
leaves the renamed folder behind; the next one that prunes completes the removal.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from critiqor.errors import CritiqorError
from critiqor.model import now_ms
from critiqor.model.timestamps import ms_from_iso
from critiqor.policy.retention import Candidate, Removal, Retention, removals
from critiqor.run.segments.handover import is_in_use
from critiqor.run.store import Run, RunStore
from critiqor.run.view import RunView
from critiqor.storage import SessionPaths, exclusive

_REMOVED = ".removed-"
"""How the name of the folder of a run begins that is being removed: no listing shows it."""


class Pruned(msgspec.Struct, frozen=True, kw_only=True):
    """What was removed, or would be."""

    removed: list[Removal]
    kept: int
    """Number of runs that are left, among them those that are never removed."""
    not_sealed: list[str]
    """Runs that are left alone because they are being recorded, were not finalized, cannot be read, or wait to be
    pushed to a store."""


def prune(store: RunStore, rules: Retention, *, keep: str | None = None, dry_run: bool = False) -> Pruned:
    """Remove the runs that the rules select, except for the run `keep`; with `dry_run`, only return them."""
    if not store.runs_dir.is_dir():
        return Pruned(removed=[], kept=0, not_sealed=[])
    # One at a time: a run that another process is removing looks damaged.
    with exclusive(store.paths.prune_lock_path):
        return _prune(store, rules, keep, dry_run=dry_run)


def _prune(store: RunStore, rules: Retention, keep: str | None, *, dry_run: bool) -> Pruned:
    _complete_removals(store.paths)
    runs = store.runs()
    candidates = [found for run in runs if not _waits_for_store(run) and (found := _candidate(run)) is not None]
    known = {each.run_id for each in candidates}
    selected = [each for each in removals(candidates, rules, now_ms()) if each.run_id != keep]
    if not dry_run:
        selected = [each for each in selected if _remove(store.run(each.run_id))]
        if selected:
            # The index of the search contains their words; it is built again when somebody searches.
            store.paths.search_index_path.unlink(missing_ok=True)
    left = [run.id for run in runs if run.id not in known]
    return Pruned(removed=selected, kept=len(runs) - len(selected), not_sealed=left)


def remove_runs(store: RunStore, run_ids: Iterable[str]) -> Pruned:
    """Remove runs that the user has chosen; those that are being recorded or were not sealed are left alone."""
    with exclusive(store.paths.prune_lock_path):
        chosen = {each.run_id: each for run_id in run_ids if (each := _candidate(store.run(run_id))) is not None}
        removed = [
            Removal(each.run_id, each.size, "chosen") for each in chosen.values() if _remove(store.run(each.run_id))
        ]
        if removed:
            store.paths.search_index_path.unlink(missing_ok=True)
    left = sorted(set(run_ids) - {each.run_id for each in removed})
    return Pruned(removed=removed, kept=len(store.runs()), not_sealed=left)


def _waits_for_store(run: Run) -> bool:
    """Return whether a run is to be stored elsewhere and is not yet: a machine without network must not lose it."""
    return (run.paths.fleet_folder / "waiting" / run.id).exists()


def _candidate(run: Run) -> Candidate | None:
    """Return a run that may be removed; None for one that may be in use, or whose verdict cannot be read."""
    try:
        if not _may_be_removed(run):
            return None
        view = RunView(run)
        brief = view.brief
        readiness = brief.verdict.readiness if brief is not None else None
        # Changed evidence has no verdict, and is what somebody may have to look into.
        is_unsafe = readiness == "unsafe" or (readiness == "unknown" and not view.integrity.is_intact)
        times = view.head.timestamps
        ended = ms_from_iso(times.finalized_at or times.created_at)
    except (CritiqorError, OSError):
        return None
    return None if ended is None else Candidate(run.id, ended, size_on_disk(run), is_unsafe)


def _may_be_removed(run: Run) -> bool:
    """Return whether a run is over: sealed or aborted, and its monitor has ended.

    A launched OpenClaw reads its configuration in the folder of the first run of a recording until it ends.
    """
    head = run.head()
    if head.status not in ("COMPLETED", "ABORTED") or is_in_use(run, head):
        return False
    return all(run.id not in (active.id, active.head().recording) for active in run.store.all_active())


def size_on_disk(run: Run) -> int:
    """Return the bytes that the files of a run take on disk."""
    return sum(map(_allocated, (run.record_path, *_files(run.folder))))


def _files(folder: Path) -> Iterator[Path]:
    for parent, _, names in os.walk(folder):
        yield from (Path(parent, name) for name in names)


def _allocated(path: Path) -> int:
    try:
        return path.lstat().st_blocks * 512
    except OSError:
        return 0


def _remove(run: Run) -> bool:
    """Remove a run; return False if it is in use by now."""
    paths = run.paths
    renamed = paths.runs_dir / f"{_REMOVED}{run.id}"
    with exclusive(paths.lock_path):
        try:
            if not _may_be_removed(run):
                return False
        except (CritiqorError, OSError):
            return False
        if run.folder.exists():
            run.folder.rename(renamed)
        run.record_path.unlink(missing_ok=True)
    _delete(renamed)
    return True


def _complete_removals(paths: SessionPaths) -> None:
    """Complete the removal of runs by processes that were killed."""
    with suppress(FileNotFoundError):
        for renamed in _renamed(paths.runs_dir):
            with exclusive(paths.lock_path):
                paths.run_path(renamed.name.removeprefix(_REMOVED)).unlink(missing_ok=True)
            _delete(renamed)


def _renamed(folder: Path) -> Sequence[Path]:
    return sorted(path for path in folder.iterdir() if path.name.startswith(_REMOVED) and path.is_dir())


def _delete(folder: Path) -> None:
    """Delete a folder; what cannot be deleted now is deleted by the next prune."""
    shutil.rmtree(folder, ignore_errors=True)
