"""Order of events that arrive a little late: writers of a journal do not wait for each other."""

from __future__ import annotations

from typing import NamedTuple

from critiqor.model import Event

HOLD_SECONDS = 0.3
"""How long an event is held, so that those that happened before it can arrive."""


class _Held(NamedTuple):
    event_id: str
    arrived: float
    event: Event


class EventOrder:
    """Sorts events by their ids, as they are sorted when the run is sealed."""

    def __init__(self) -> None:
        self._held: list[_Held] = []
        self._last_id = ""
        self.is_broken = False
        """Whether an event came too late, or twice, so that the order so far is not that of the sealed evidence."""

    def add(self, events: list[Event], now: float) -> None:
        """Add events that have arrived; `now` is in seconds, of a clock that never goes back."""
        self._held += [_Held(event.event_id, now, event) for event in events]

    def take(self, now: float | None = None) -> list[Event]:
        """Return the events that were held long enough, in order; without a time, all of them."""
        if not self._held:
            return []
        held = sorted(self._held, key=lambda each: each.event_id)
        count = len(held)
        if now is not None:
            due = [number for number, each in enumerate(held, 1) if now - each.arrived >= HOLD_SECONDS]
            count = due[-1] if due else 0
        self._held = held[count:]
        for each in held[:count]:
            self.is_broken = self.is_broken or each.event_id <= self._last_id
            self._last_id = max(self._last_id, each.event_id)
        return [each.event for each in held[:count]]

    def restart(self) -> None:
        """Note that the events so far were read again in their true order."""
        self.is_broken = False
