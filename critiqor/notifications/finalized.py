"""Announce the findings of runs that were finalized, also of those whose finalize was killed before it could."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from critiqor.errors import CritiqorError
from critiqor.notifications.alert import alerts_of
from critiqor.notifications.notifier import Notifier
from critiqor.run.store import Run, RunStore


def announce_diagnosis(run: Run, notifier: Notifier, complete_command: Callable[[str], str] = str) -> int:
    """Write the findings of a sealed run into the outbox, and return how many messages are new.

    Those that were announced while the run was recorded are not announced again. `complete_command` adds what a command
    needs to find the runs folder.
    """
    alerts = alerts_of(run.diagnosis, run.head())
    named = (msgspec.structs.replace(alert, command=complete_command(alert.command)) for alert in alerts)
    added = notifier.announce(named)
    notifier.outbox.forget_expected(run.id)
    return added


def announce_expected(notifier: Notifier, complete_command: Callable[[str], str] = str) -> None:
    """Announce the runs that were sealed by a process that was killed before it wrote their alerts.

    A run that is not sealed yet is left to its next finalize.
    """
    store = RunStore(notifier.paths.runs_dir)
    for run_id in notifier.outbox.expected():
        try:
            status = store.run(run_id).head().status
            if status == "COMPLETED":
                announce_diagnosis(store.run(run_id), notifier, complete_command)
            elif status == "ABORTED":
                notifier.outbox.forget_expected(run_id)
        except CritiqorError:
            # The run is gone, or cannot be read: there is nothing to announce.
            notifier.outbox.forget_expected(run_id)


def forget_deleted_runs(notifier: Notifier) -> None:
    """Forget the alerts of finalized runs that were deleted."""
    runs_dir = notifier.paths.runs_dir
    for channel in notifier.channels:
        # A run without a record can be recovered while its folder is there.
        notifier.outbox.channel(channel.name).forget_sent(
            lambda run_id: not (runs_dir / f"{run_id}.json").exists() and not (runs_dir / run_id).exists()
        )
