"""The events that a finding cites as its evidence: of many events the first and the last ones."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable

MAX_CITED = 12
"""Maximum number of events that one finding cites: the first ones and the last `_LAST_CITED`."""
_LAST_CITED = 4


def cite_events(events: Iterable[str]) -> list[str]:
    """Return at most `MAX_CITED` of these event ids in order: the first ones and the last `_LAST_CITED`."""
    # Events are usually in order already; a dictionary keeps the order, which makes sorting cheap.
    ordered = sorted(dict.fromkeys(events))
    if len(ordered) <= MAX_CITED:
        return ordered
    return ordered[: MAX_CITED - _LAST_CITED] + ordered[-_LAST_CITED:]


class CitedEvents:
    """The events that `cite_events` would select, updated while events are added one by one."""

    __slots__ = ("_first", "_last")

    def __init__(self) -> None:
        self._first: list[str] = []
        """The `MAX_CITED` smallest ids; all ids if there are fewer."""
        self._last: list[str] = []
        """The `_LAST_CITED` largest ids."""

    def add(self, event_id: str) -> None:
        first, last = self._first, self._last
        if len(first) < MAX_CITED:
            if event_id not in first:
                insort(first, event_id)
        elif event_id < first[-1] and event_id not in first:
            insort(first, event_id)
            first.pop()
        if (len(last) < _LAST_CITED or event_id > last[0]) and event_id not in last:
            insort(last, event_id)
            del last[:-_LAST_CITED]

    def update(self, other: CitedEvents) -> None:
        """Add the events of another selection."""
        for event_id in other.kept:
            self.add(event_id)

    def copy(self) -> CitedEvents:
        """Return a selection to which other events can be added."""
        other = CitedEvents()
        other.update(self)
        return other

    @property
    def kept(self) -> set[str]:
        """All event ids from which `cited` selects."""
        return {*self._first, *self._last}

    def cited(self, *others: str) -> list[str]:
        """Return the event ids that `cite_events` selects from all added events and `others`."""
        return cite_events((*self._first, *self._last, *others))
