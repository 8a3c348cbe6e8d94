"""Sending of what waits in the outbox of a runs folder: to the store, then to the index.

A run that cannot be stored is set aside with the reason. If the store or the index fails, everything waits: the state
says why and when the next attempt is made. One process sends at a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from critiqor.errors import CritiqorError
from critiqor.fleet.errors import FleetUnavailableError
from critiqor.fleet.settings import FleetSettings, Push, may_leave
from critiqor.fleet.store.indexing import index_stored
from critiqor.fleet.store.object_store import FleetStore, open_store
from critiqor.fleet.store.outbox import PushOutbox, SenderState
from critiqor.fleet.store.storing import StoredRun, store_run
from critiqor.fleet.threads import map_in_threads
from critiqor.model import now_ms
from critiqor.notifications.delivery import back_off_ms
from critiqor.run.store import Run, RunStore

THREADS = 4
"""Runs that are stored at the same time."""
BATCH = 16
"""Runs after which the index is brought up to date."""
Progress = Callable[[], None]


class Refusal(NamedTuple):
    """A run that cannot be stored as it is."""

    run_id: str
    reason: str
    fix: str | None = None


class PushReport:
    """What was stored, and what was not."""

    def __init__(self) -> None:
        self.stored: list[StoredRun] = []
        """Runs that are in the store now, also those that were there already."""
        self.private: list[str] = []
        """Runs that the settings do not let leave this machine."""
        self.refused: list[Refusal] = []
        self.waiting: list[str] = []
        """Runs that are not stored yet, because the store failed."""
        self.unindexed = 0
        """Runs that are stored, and not in the index yet."""
        self.problem: CritiqorError | None = None
        """Why the store failed."""
        self.index_problem: CritiqorError | None = None
        """Why the index failed."""


def push_runs(
    runs: Sequence[Run], store: FleetStore, settings: FleetSettings, push: Push, progress: Progress | None = None
) -> PushReport:
    """Store runs without an outbox: for a store that is not that of the settings."""
    report = PushReport()
    for batch in _batches(runs):
        for run, result in _store_all(batch, store, settings, push):
            _count(report, run, result)
            if progress is not None:
                progress()
        if report.problem is not None:
            done = {each.manifest.run_id for each in report.stored} | {each.run_id for each in report.refused}
            report.waiting = [run.id for run in runs if run.id not in done.union(report.private)]
            break
    return report


class OutboxSender:
    """Sends what waits in the outbox of one runs folder to the store and the index of the settings."""

    def __init__(self, runs: RunStore, settings: FleetSettings, push: Push, progress: Progress | None = None) -> None:
        self.outbox = PushOutbox(runs.paths)
        self._runs = runs
        self._settings = settings
        self._push = push
        self._progress = progress

    def send(self, chosen: Sequence[Run] | None = None) -> PushReport:
        """Store and index what waits, in one attempt. The caller holds the lock of the outbox.

        With `chosen`, these runs are stored instead, and only those that are stored are remembered: what the settings
        say about the others may differ from what this sender was created with.
        """
        report = PushReport()
        try:
            self._send(report, chosen)
        except CritiqorError as error:  # the extra is not installed, or the address is wrong
            report.problem = error
        state, problem = self.outbox.state(), report.problem or report.index_problem
        if problem is None:
            if state.failures:
                self.outbox.save_state(SenderState())
        else:
            now, failures = now_ms(), state.failures + 1
            retry_ms = now + back_off_ms(failures)
            reason = problem.message
            self.outbox.save_state(SenderState(failures=failures, failed_ms=now, retry_ms=retry_ms, reason=reason))
        if chosen is None:
            report.waiting = [run.id for run in self._waiting()]
        elif report.problem is not None:
            done = {each.manifest.run_id for each in report.stored} | {each.run_id for each in report.refused}
            report.waiting = [run.id for run in chosen if run.id not in done.union(report.private)]
        report.unindexed = len(self.outbox.names("indexing"))
        return report

    def _send(self, report: PushReport, chosen: Sequence[Run] | None) -> None:
        waiting, tried = self._waiting() if chosen is None else chosen, set[str]()
        if not waiting and not self.outbox.names("indexing"):
            return
        store = open_store(self._settings.store or "")
        while waiting:
            for batch in _batches(waiting):
                for run, result in _store_all(batch, store, self._settings, self._push):
                    _count(report, run, result)
                    if chosen is None or isinstance(result, StoredRun):
                        self._remember(run, store, result)
                    if self._progress is not None:
                        self._progress()
                if report.problem is not None:
                    return
                self._index(report, store)
            # Others may have been sealed in the meantime, and their own senders found this one at work.
            tried.update(run.id for run in waiting)
            waiting = [run for run in self._waiting() if run.id not in tried] if chosen is None else ()
        self._index(report, store)

    def _waiting(self) -> list[Run]:
        return [run for name in self.outbox.names("waiting") if _is_sealed(run := self._runs.run(name))]

    def _remember(self, run: Run, store: FleetStore, result: _Result) -> None:
        if isinstance(result, StoredRun):
            self.outbox.mark_stored(run.id, store.url, result.manifest, result.rule_set)
        elif result is None:
            self.outbox.forget("waiting", run.id)
        elif not isinstance(result, FleetUnavailableError):
            self.outbox.refuse(run.id, result.message)

    def _index(self, report: PushReport, store: FleetStore) -> None:
        """Add stored runs to the index. If it is away, they wait, and the others are stored nevertheless."""
        names = self.outbox.names("indexing")
        if report.index_problem is not None:
            return
        try:
            for start in range(0, len(names), BATCH):
                index_stored(names[start : start + BATCH], store, self._settings, self.outbox)
        except CritiqorError as error:
            report.index_problem = error


_Result = StoredRun | CritiqorError | None
"""A stored run, why it is not stored, or None if it may not leave this machine."""


def _batches(runs: Sequence[Run]) -> Iterable[Sequence[Run]]:
    return (runs[start : start + BATCH] for start in range(0, len(runs), BATCH))


def _store_all(
    runs: Sequence[Run], store: FleetStore, settings: FleetSettings, push: Push
) -> Iterable[tuple[Run, _Result]]:
    """Store a few runs at the same time; yield each with its result as soon as those before it are done."""

    failures: list[FleetUnavailableError] = []

    def attempt(run: Run) -> _Result:
        if failures:  # what is away for one is away for the others, which would wait as long
            return failures[0]
        result = _attempt(run)
        if isinstance(result, FleetUnavailableError):
            failures.append(result)
        return result

    def _attempt(run: Run) -> _Result:
        try:
            return store_run(run, store, settings) if may_leave(run.head(), push) else None
        except CritiqorError as error:
            return error
        except OSError as error:
            # A file of the run is gone, or this machine lacks space or descriptors at the moment.
            kind = CritiqorError if isinstance(error, FileNotFoundError) else FleetUnavailableError
            return kind(f"{run.id} cannot be read: {error.strerror or error}")

    with ThreadPoolExecutor(THREADS) as pool:
        yield from zip(runs, map_in_threads(attempt, runs, pool), strict=True)


def _count(report: PushReport, run: Run, result: _Result) -> None:
    if isinstance(result, StoredRun):
        report.stored.append(result)
    elif result is None:
        report.private.append(run.id)
    elif isinstance(result, FleetUnavailableError):
        report.problem = result
        report.waiting.append(run.id)
    else:
        report.refused.append(Refusal(run.id, result.message, result.fix))


def _is_sealed(run: Run) -> bool:
    """Return whether a run is sealed; one that cannot be read is reported when it is stored."""
    try:
        return run.head().seal is not None
    except CritiqorError:
        return True


def send_in_background(sender: OutboxSender, seconds: float) -> None:
    """Send what waits until nothing is left, with back-off between attempts, for that many seconds at most.

    If the next attempt is not due yet, the process whose attempt failed is waiting for it, so this one ends. While
    another process sends, this one waits: that one may have looked at the outbox for the last time.
    """
    until, has_tried = time.monotonic() + seconds, False
    while sender.outbox.has_work() and time.monotonic() < until:
        if not sender.outbox.is_due():
            if not has_tried:
                return
            time.sleep(0.5)
            continue
        try:
            with sender.outbox.sending(0):
                report = sender.send()
        except TimeoutError:
            time.sleep(0.5)
            continue
        has_tried = True
        if not report.waiting and not report.unindexed:
            return
