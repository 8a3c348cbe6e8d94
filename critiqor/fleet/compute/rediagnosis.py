"""Diagnosing the runs of a store again with the installed rule set, on many workers.

A diagnosis is an object of its own beside the run, created once and never replaced. What is there is not computed
again: a call that was killed is repeated to go on, and several calls at once do no harm.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import msgspec

from critiqor.diagnosis import RULE_SET_VERSION
from critiqor.errors import CritiqorError
from critiqor.fleet.compute.batch import Batch
from critiqor.fleet.compute.changes import ChangeCounter, ChangeReport, RunChange, change_of
from critiqor.fleet.compute.executor import Workers
from critiqor.fleet.compute.selection import RunSelection
from critiqor.fleet.errors import FleetError, FleetUnavailableError
from critiqor.fleet.manifest import Manifest, rule_set_order
from critiqor.fleet.store.diagnoses import put_diagnosis, read_first_usable, read_later_diagnosis, stored_rule_sets
from critiqor.fleet.store.object_store import open_store
from critiqor.fleet.store.stored_bundle import read_diagnosis, unpack_bundle
from critiqor.run.diagnosis import diagnose_unsaved
from critiqor.storage.seals.diagnosis_seal import sealed_diagnosis
from critiqor.storage.seals.digests import sealed_file_problems

if TYPE_CHECKING:
    from critiqor.fleet.store.object_store import FleetStore


class RunTask(msgspec.Struct, frozen=True):
    """One run to diagnose, with all that a worker needs to know."""

    url: str
    """The store."""
    manifest: Manifest
    rule_set: str
    """The rule set that the worker must have."""
    scratch: str | None
    """Folder for temporary files; None for that of the worker."""


class Problem(msgspec.Struct, frozen=True):
    """Why a task failed. Exceptions are not passed on: not all of them survive the way to another process."""

    text: str
    fix: str | None = None
    """What to do first if other runs would fail in the same way; None if only this one does."""


def diagnose_store(
    store: FleetStore,
    selection: RunSelection,
    workers: Workers,
    *,
    advance: Callable[[], None],
    notice: Callable[[str], None],
) -> ChangeReport:
    """Diagnose the selected runs of a store again, and return what changed. Runs that fail are named in the report.

    `advance` is called once for each run of the store, selected or not; `notice` with what a user should know early.
    """
    counter = ChangeCounter(store.url, RULE_SET_VERSION)
    batch = Batch(workers, rediagnose, notice)
    for done in batch.results(_tasks(store, selection, workers, counter.report, advance)):
        result = done.result
        if isinstance(result, RunChange):
            counter.add(result)
        elif isinstance(result, Problem) and result.fix is not None:
            raise FleetError(result.text, fix=result.fix)
        else:
            problem = result.text if result is not None else f"{type(done.error).__name__}: {done.error}"
            counter.add_problem(done.task.manifest, problem)
        advance()
    counter.report.unusable = store.problems
    return counter.finish()


def _tasks(
    store: FleetStore, selection: RunSelection, workers: Workers, report: ChangeReport, advance: Callable[[], None]
) -> Iterator[RunTask]:
    """Yield the runs to diagnose, while the store is listed; count the others."""
    for manifest in store.manifests():
        if selection.has(manifest):
            report.selected += 1
            if rule_set_order(manifest.rule_set) >= rule_set_order(RULE_SET_VERSION):
                report.same_rule_set += 1
            elif manifest.content != "full":
                report.without_content += 1
            else:
                yield RunTask(store.url, manifest, RULE_SET_VERSION, workers.scratch)
                continue
        advance()


def rediagnose(task: RunTask) -> RunChange | Problem:
    """Diagnose one run, unless the store has the diagnosis already, and return what changed. Executed by a worker."""
    if task.rule_set != RULE_SET_VERSION:
        text = f"a worker has rule set {RULE_SET_VERSION}, and rule set {task.rule_set} is applied"
        return Problem(text, fix="install this version of Critiqor on every worker")
    try:
        return _rediagnose(_opened_store(task.url), task.manifest, task.scratch or _worker_folder())
    except FleetUnavailableError as error:
        return Problem(error.message, fix=error.fix or "type the same command again")
    except CritiqorError as error:
        return Problem(error.message)
    except Exception as error:  # one bad run costs only itself
        return Problem(f"{type(error).__name__}: {error}")


def _rediagnose(store: FleetStore, manifest: Manifest, scratch: str | None) -> RunChange:
    rule_sets = stored_rule_sets(store, manifest.seal)
    older = [each for each in rule_sets if rule_set_order(each) < rule_set_order(RULE_SET_VERSION)]
    before = read_first_usable(store, manifest, older)
    if RULE_SET_VERSION in rule_sets:
        after = read_later_diagnosis(store, manifest, RULE_SET_VERSION)
        return change_of(manifest, before or read_diagnosis(store, manifest), after, is_new=False)
    with TemporaryDirectory(prefix="run-", dir=scratch, ignore_cleanup_errors=True) as folder:
        run = unpack_bundle(store, manifest, Path(folder))
        before = before or run.diagnosis
        if sealed_file_problems(run.timeline_path, run.coverage().timeline):
            raise FleetError(f"{manifest.name} was pushed without its timeline, so only its host can diagnose it again")
        after = diagnose_unsaved(run)
    is_new = put_diagnosis(store, manifest.seal, sealed_diagnosis(after))
    return change_of(manifest, before, after, is_new=is_new)


@lru_cache(maxsize=1)
def _opened_store(url: str) -> FleetStore:
    return open_store(url)


def _worker_folder() -> str | None:
    """Return the folder of the Dask worker that executes this, which Dask removes even if the worker is killed."""
    if "distributed" not in sys.modules:
        return None
    from distributed import get_worker

    try:
        return str(get_worker().local_directory)
    except ValueError:
        return None
