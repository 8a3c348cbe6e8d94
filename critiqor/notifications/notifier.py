"""The notifier: writes alerts into the outbox, and delivers what waits there in threads of its own.

Sending never takes longer than the given time, whatever a receiver does: a thread that still waits then is left behind,
ends with the process, and its message is sent again by the next one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence

from critiqor.model import now_ms
from critiqor.notifications.alert import Alert, Message, alert_message, trial_message, without_texts
from critiqor.notifications.delivery import ChannelReport, Delivery
from critiqor.notifications.filters import is_wanted
from critiqor.notifications.outbox import Outbox
from critiqor.notifications.senders import THREAD_PREFIX, NotDeliveredError, Sender
from critiqor.notifications.settings import Channel
from critiqor.storage import SessionPaths

_GRACE_SECONDS = 0.25
"""Time to record the outcome of an attempt that ended with the deadline."""


class Notifier:
    """Announces alerts to all channels."""

    def __init__(
        self,
        channels: Sequence[Channel],
        paths: SessionPaths,
        *,
        write_line: Callable[[str], None] | None = None,
        clock: Callable[[], int] = now_ms,
    ) -> None:
        """`write_line` prints a message on the terminal; without it, channels of that kind wait."""
        self.channels = channels
        self.paths = paths
        self.outbox = Outbox(paths)
        self._write_line = write_line
        self._clock = clock
        self._threads: dict[str, _ChannelThread] = {}

    def announce(self, alerts: Iterable[Alert]) -> int:
        """Write alerts into the outbox, for every channel that wants them. Return how many messages are new.

        When this returns, they are on disk, and are delivered even if this process is killed.
        """
        added = 0
        for alert in alerts:
            for channel in self.channels:
                outbox = self.outbox.channel(channel.name)
                was_announced = alert.kind != "new" and outbox.was_announced(alert)
                if is_wanted(alert, channel, was_announced=was_announced):
                    [kept] = [alert] if channel.texts else without_texts([alert])
                    added += outbox.add(alert_message(kept, self._clock()))
        return added

    def start(self, seconds: float, *, at_once: bool = False) -> None:
        """Begin to deliver what waits, in the background, and stop after that many seconds.

        With `at_once`, the back-off of earlier attempts is not respected.
        """
        until = time.monotonic() + seconds
        for channel in self.channels:
            running = self._threads.get(channel.name)
            if running is not None and running.is_alive():
                running.end_if_overdue()
                continue
            if channel.kind == "terminal" and self._write_line is None:
                continue
            outbox = self.outbox.channel(channel.name)
            if at_once or outbox.counts().waiting:
                sender = Sender(channel, self._write_line)
                delivery = Delivery(channel, outbox, sender, clock=self._clock, until=until)
                self._threads[channel.name] = _ChannelThread(delivery, sender, until, at_once=at_once)
                self._threads[channel.name].start()

    def deliver(self, seconds: float, *, at_once: bool = False) -> list[ChannelReport]:
        """Deliver what waits, for at most that many seconds. Return what became of it, channel by channel."""
        self.start(seconds, at_once=at_once)
        until = time.monotonic() + seconds + _GRACE_SECONDS
        for thread in self._threads.values():
            thread.join(max(0.0, until - time.monotonic()))
        return [self._report(channel, seconds) for channel in self.channels]

    def _report(self, channel: Channel, seconds: float) -> ChannelReport:
        counts = self.outbox.channel(channel.name).counts()
        thread = self._threads.get(channel.name)
        report = ChannelReport(channel=channel.name) if thread is None else thread.delivery.report
        if thread is not None and thread.is_alive() and report.reason is None:
            report = ChannelReport(channel=channel.name, sent=report.sent, is_problem=True)
            report.reason = f"no answer within {seconds:.0f} seconds"
        report.waiting, report.refused, report.damaged = counts
        if not counts.waiting:
            report.reason, report.is_problem = None, False
        return report

    def unknown_channels(self) -> list[ChannelReport]:
        """Return the channels that have messages in the outbox, but are not in the settings."""
        names = set(self.outbox.channels()) - {channel.name for channel in self.channels}
        counts = {name: self.outbox.channel(name).counts() for name in sorted(names)}
        return [
            ChannelReport(channel=name, waiting=count.waiting, reason="it is not in the settings", is_problem=True)
            for name, count in counts.items()
            if count.waiting
        ]

    def try_channels(self, channels: Sequence[Channel], seconds: float) -> list[ChannelReport]:
        """Send a test message to channels at once, not through the outbox. Return what became of it."""
        message = trial_message(self._clock())
        trials = [_Trial(channel, Sender(channel, self._write_line), message, seconds) for channel in channels]
        for trial in trials:
            trial.start()
        until = time.monotonic() + seconds + _GRACE_SECONDS
        for trial in trials:
            trial.join(max(0.0, until - time.monotonic()))
        return [trial.report for trial in trials]


class _ChannelThread(threading.Thread):
    """Delivers to one channel; it does not keep the process alive."""

    def __init__(self, delivery: Delivery, sender: Sender, until: float, *, at_once: bool) -> None:
        super().__init__(name=f"{THREAD_PREFIX}{delivery.report.channel}", daemon=True)
        self.delivery = delivery
        self._sender = sender
        self._until = until
        self._at_once = at_once

    def end_if_overdue(self) -> None:
        """Close the connection to a receiver that answers byte by byte, so that no single read ever times out."""
        if time.monotonic() > self._until:
            self._sender.close()

    def run(self) -> None:
        try:
            with self._sender:
                self.delivery.run(at_once=self._at_once)
        # Whatever a library raises, the caller must get a report, and its message may contain the address.
        except Exception as error:
            reason = error.strerror if isinstance(error, OSError) else None
            self.delivery.report.reason = f"the outbox cannot be used: {reason or type(error).__name__}"
            self.delivery.report.is_problem = True


class _Trial(threading.Thread):
    """Sends a test message to one channel."""

    def __init__(self, channel: Channel, sender: Sender, message: Message, seconds: float) -> None:
        super().__init__(name=f"{THREAD_PREFIX}{channel.name}", daemon=True)
        self.report = ChannelReport(channel=channel.name, is_problem=True)
        self.report.reason = f"no answer within {seconds:.0f} seconds"
        self._sender = sender
        self._message = message
        self._seconds = seconds

    def run(self) -> None:
        try:
            with self._sender:
                self._sender.send(self._message, self._seconds)
        except NotDeliveredError as error:
            self.report.reason = error.reason
        except Exception as error:  # as above
            self.report.reason = f"it failed: {type(error).__name__}"
        else:
            self.report.sent, self.report.reason, self.report.is_problem = 1, None, False
