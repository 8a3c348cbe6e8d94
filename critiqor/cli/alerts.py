"""Alerts of the command line: announce the findings of a finalized run, and deliver what waits in the outbox."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from critiqor.cli.hints import add_runs_dir
from critiqor.cli.output import say, warn
from critiqor.errors import CritiqorError

if TYPE_CHECKING:
    from critiqor.live.announcements import Announcement
    from critiqor.live.verdict import LiveLimit
    from critiqor.notifications.alert import Alert
    from critiqor.notifications.delivery import ChannelReport
    from critiqor.notifications.notifier import Notifier
    from critiqor.run.store import Run

FINALIZE_SECONDS = 5.0
"""Most seconds by which alerts delay `critiqor finalize`; what is not sent by then waits in the outbox."""
LIVE_SECONDS = 30.0
"""Seconds for which an alert is delivered in the background while a run is recorded, before it waits."""
OTHER_SECONDS = 2.0
"""The same for any other verb, if alerts of an earlier process wait."""


def open_notifier(runs_dir: str | Path, policy: Path | None = None) -> Notifier | None:
    """Return the notifier with which a verb sends alerts and prints warnings; None if no channel is configured."""
    from critiqor.cli.settings import read_channels

    channels = read_channels(policy)
    if not channels:
        return None
    from critiqor.notifications.notifier import Notifier
    from critiqor.storage import paths_for

    return Notifier(channels, paths_for(runs_dir), write_line=warn)


def expect_alerts(
    run: str | None, runs_dir: str, policy: Path | None = None, slot: str | None = None
) -> Notifier | None:
    """Remember that the findings of a run are to be announced, before it is sealed.

    If the process is killed afterwards, the next one announces them. Return None if no channel is configured.
    """
    notifier = open_notifier(runs_dir, policy)
    if notifier is None:
        return None
    from critiqor.run.store import RunStore

    store = RunStore(runs_dir)
    named = store.run(run) if run else store.active(slot)
    if named is not None and named.id in store:
        # Sealing matters more than this note, which only a process that is killed needs.
        with contextlib.suppress(OSError):
            notifier.outbox.expect(named.id)
    return notifier


def announce_findings(run: Run, notifier: Notifier) -> None:
    """Announce the findings of a sealed run, deliver them for a short time, and print what waits."""
    from critiqor.diagnosis import FAILURE_TYPES
    from critiqor.extensions.entry_points import installed
    from critiqor.notifications.finalized import announce_diagnosis, announce_expected, forget_deleted_runs
    from critiqor.notifications.settings import unknown_types

    known = {*FAILURE_TYPES, *(each.name for each in installed("critiqor.detectors"))}
    for mistake in unknown_types(notifier.channels, known):
        warn(mistake)
    try:
        announce_diagnosis(run, notifier, add_runs_dir)
        announce_expected(notifier, add_runs_dir)
        forget_deleted_runs(notifier)
    except (CritiqorError, OSError) as error:
        warn(f"the findings of {run.id} could not be announced: {_reason(error)}")
        return
    for report in notifier.deliver(FINALIZE_SECONDS):
        for sentence in describe_waiting(report):
            say(f"{sentence}\n  → {add_runs_dir('critiqor notify flush')}")


class LiveAlerts:
    """Announces what the live diagnosis of runs reports, and delivers it in the background."""

    def __init__(self, notifiers: Mapping[Path, Notifier]) -> None:
        """`notifiers` are those of the runs folders; folders without channels have none."""
        self._notifiers = notifiers

    @classmethod
    def of_folders(cls, folders: Iterable[Path], policy: Path | None) -> LiveAlerts:
        """Return the alerts that a verb sends while it records or guards runs of these folders."""
        opened = {folder: open_notifier(folder, policy) for folder in folders}
        return cls({folder: notifier for folder, notifier in opened.items() if notifier is not None})

    def announce(self, run: Run, news: Announcement | LiveLimit) -> None:
        """Write an alert about a finding or an exceeded limit into the outbox, and begin to deliver it."""
        notifier = self._notifiers.get(run.paths.runs_dir)
        if notifier is None:
            return
        try:
            notifier.announce([_live_alert(run, news)])
        except (CritiqorError, OSError) as error:
            warn(f"an alert about {run.id} could not be written: {_reason(error)}")
            return
        notifier.start(LIVE_SECONDS)

    def finish(self) -> None:
        """Deliver for a short time what waits; what is not sent by then waits in the outbox."""
        for notifier in self._notifiers.values():
            with contextlib.suppress(CritiqorError, OSError):
                notifier.deliver(OTHER_SECONDS)


def _live_alert(run: Run, news: Announcement | LiveLimit) -> Alert:
    from critiqor.live.announcements import Announcement
    from critiqor.model import Scope
    from critiqor.notifications.alert import alert_of, limit_alert

    head = run.head()
    if isinstance(news, Announcement):
        return alert_of(news.finding.as_finding(), head, news.kind, command=add_runs_dir(news.command))
    place = Scope(news.session_key, news.agent_run_id)
    return limit_alert(news.name, news.text, place, head, command=add_runs_dir(f"critiqor watch {run.id}"))


def deliver_waiting(runs_dir: str) -> None:
    """Deliver the alerts that an earlier process left behind, for a short time and without a message."""
    from critiqor.notifications.finalized import announce_expected

    with contextlib.suppress(CritiqorError, OSError):
        notifier = open_notifier(runs_dir)
        if notifier is not None and notifier.outbox.has_work():
            announce_expected(notifier, add_runs_dir)
            notifier.deliver(OTHER_SECONDS)


def describe_waiting(report: ChannelReport) -> list[str]:
    """Return sentences on the messages of a channel that were not delivered."""
    from critiqor.model.formatting import counted

    name, verb = f"channel {report.channel}", "is" if report.waiting == 1 else "are"
    waiting = f"{counted(report.waiting, 'alert')} for {name} {verb} waiting: {report.reason or 'not sent yet'}"
    refused = f"{counted(report.refused, 'alert')} refused by {name}" + (
        f": {report.refusal}" if report.refusal else ""
    )
    damaged = f"{counted(report.damaged, 'file')} in the outbox of {name} cannot be read"
    sentences = {waiting: report.waiting, refused: report.refused, damaged: report.damaged}
    return [sentence for sentence, number in sentences.items() if number]


def _reason(error: Exception) -> str:
    if isinstance(error, CritiqorError):
        return error.message
    return (error.strerror if isinstance(error, OSError) else None) or type(error).__name__
