"""Deliver the waiting messages of one channel: quiet hours, limit per hour, and retries with exponential back-off."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import msgspec

from critiqor.notifications.alert import without_texts
from critiqor.notifications.filters import quiet_until
from critiqor.notifications.outbox import MAX_SUMMED, ChannelOutbox, ChannelState, Waiting
from critiqor.notifications.senders import NotDeliveredError, Sender
from critiqor.notifications.settings import Channel

FIRST_DELAY_MS = 1000
MAX_DELAY_MS = 3_600_000
"""Longest time until the next attempt after many failures."""
HOUR_MS = 3_600_000
_POLL_SECONDS = 0.05


class ChannelReport(msgspec.Struct, kw_only=True):
    """What became of the messages of one channel."""

    channel: str
    sent: int = 0
    """Messages that were accepted."""
    waiting: int = 0
    """Alerts that stay in the outbox."""
    refused: int = 0
    """Alerts in messages that the receiver rejects as such."""
    damaged: int = 0
    """Files of the outbox that cannot be read."""
    reason: str | None = None
    """Why alerts wait; null if none does."""
    is_problem: bool = False
    """Whether they wait because something failed."""
    refusal: str | None = None
    """Why the receiver rejects messages; null if it was not tried."""


class Delivery:
    """One attempt to deliver everything that waits for a channel."""

    def __init__(
        self, channel: Channel, outbox: ChannelOutbox, sender: Sender, *, clock: Callable[[], int], until: float
    ) -> None:
        self._channel = channel
        self._outbox = outbox
        self._sender = sender
        self._clock = clock
        self._until = until
        """Monotonic time at which no further attempt is made."""
        self._is_misconfigured = False
        """Whether no further attempt of this process can succeed."""
        self.report = ChannelReport(channel=channel.name)

    def run(self, *, at_once: bool = False) -> None:
        """Send until nothing waits, the time is over, or the channel may not be used.

        With `at_once`, neither the back-off of earlier attempts nor refusals are respected.
        """
        try:
            with self._outbox.sending(self._remaining):
                if at_once:
                    self._outbox.retry_refused()
                    self._outbox.save_state(msgspec.structs.replace(self._outbox.state(), failures=0, retry_ms=0))
                while (entries := self._outbox.waiting()) and self._send_all(entries):
                    pass
        except TimeoutError:
            self._wait("another process is sending to it")

    @property
    def _remaining(self) -> float:
        return self._until - time.monotonic()

    def _wait(self, reason: str, *, is_problem: bool = False) -> bool:
        """Leave the rest in the outbox."""
        self.report.reason, self.report.is_problem = reason, is_problem
        return False

    def _send_all(self, entries: list[Waiting]) -> bool:
        """Send entries one by one. Return whether to go on."""
        while entries:
            if self._remaining <= 0:
                return self._wait(self.report.reason or "the time was over", is_problem=self.report.is_problem)
            if (end := quiet_until(self._channel, self._clock())) is not None:
                return self._wait(f"quiet hours until {end}")
            state = self._outbox.state()
            if not self._is_due(state):
                return False
            now = self._clock()
            # A time after now is from before the clock was set back.
            state.sent_ms = [moment for moment in state.sent_ms if now - HOUR_MS < moment <= now]
            budget = self._channel.max_per_hour - len(state.sent_ms)
            if budget <= 0:
                return self._wait(f"{self._channel.max_per_hour} messages were sent within an hour, the limit")
            if budget == 1 and len(entries) > 1 and not entries[0].entry.covers:
                summed = [each for each in entries if not each.entry.covers][:MAX_SUMMED]
                if len(summed) > 1:
                    names = {each.name for each in summed}
                    rest = [each for each in entries if each.name not in names]
                    entries = [self._outbox.sum_up(summed, now), *rest]
            if not self._send(entries.pop(0), state):
                return not self._is_misconfigured  # later, unless the time is over
        return True

    def _send(self, waiting: Waiting, state: ChannelState) -> bool:
        """Make one attempt. Return whether the next entry may be sent at once."""
        try:
            message = waiting.entry.message
            # The settings of today count, not those of the day on which it was written.
            kept = message.alerts if self._channel.texts else without_texts(message.alerts)
            self._sender.send(msgspec.structs.replace(message, alerts=kept), self._remaining)
        except NotDeliveredError as error:
            if error.is_refused:
                self._outbox.mark_refused(waiting)
                self.report.refusal = error.reason
                return True
            state.failures += 1
            state.failed_ms = self._clock()
            state.retry_ms = state.failed_ms + back_off_ms(state.failures, error.retry_after)
            self._outbox.save_state(state)
            self._is_misconfigured = error.is_misconfigured
            return self._wait(error.reason, is_problem=True)
        self._outbox.mark_sent(waiting)
        self.report.sent += 1
        self.report.reason, self.report.is_problem = None, False
        self._outbox.save_state(ChannelState(sent_ms=[*state.sent_ms, self._clock()]))
        return True

    def _is_due(self, state: ChannelState) -> bool:
        """Wait for the next attempt if it comes before the time is over. Return whether it may be made."""
        while True:
            now = self._clock()
            retry_ms = min(state.retry_ms, state.failed_ms + MAX_DELAY_MS)
            # Before the last failure: the clock was set back, so the time of the next attempt means nothing.
            if state.failures == 0 or now >= retry_ms or now < state.failed_ms:
                return True
            seconds = (retry_ms - now) / 1000
            if seconds > self._remaining:
                if self.report.reason is None:
                    failed = f"{state.failures} attempts in a row failed" if state.failures > 1 else "an attempt failed"
                    self._wait(f"{failed}; the next one is in {seconds:.0f} s", is_problem=True)
                return False
            time.sleep(min(_POLL_SECONDS, max(seconds, 0.001)))


def back_off_ms(failures: int, retry_after: float = 0.0) -> int:
    """Return the milliseconds until the next attempt: doubled with each failure, and different for each sender."""
    delay = min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** min(failures - 1, 30))
    return int(min(MAX_DELAY_MS, max(delay * random.uniform(0.75, 1.25), retry_after * 1000)))
