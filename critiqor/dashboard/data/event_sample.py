"""Sample of events for an offline file: all events of a run, or the important ones if there are too many.

Events are read one by one, and only as many are kept as fit into the file.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from typing import NamedTuple

import msgspec

from critiqor.dashboard.data.event_index import Numbered

MAX_EVENTS = 2000
MAX_BYTES = 4 << 20
"""Maximum size of the events in the file; the rest of it is small."""
AROUND = 2
"""Number of events before and after a cited event that are included with it."""
MAX_JSON = 12_000
"""Maximum length of the JSON of one event in characters."""
_FRAME_BYTES = 900
"""Approximate size of the markup around an event in bytes."""


class Choice(NamedTuple):
    """The events in the file."""

    events: dict[int, str]
    """Ids of the events by their numbers."""
    total: int
    """Number of events of the run."""
    fits: bool
    """Whether all important events fit."""

    @property
    def is_whole(self) -> bool:
        """Whether all events of the run are in the sample."""
        return len(self.events) == self.total


class _Entry(NamedTuple):
    number: int
    event_id: str
    size: int


class _Rank:
    """Events of equal importance, as many as could fit."""

    def __init__(self) -> None:
        self.entries: list[_Entry] = []
        self.is_cut = False

    def add(self, entry: _Entry) -> None:
        if len(self.entries) < MAX_EVENTS:
            self.entries.append(entry)
        else:
            self.is_cut = True


def choose(events: Iterable[Numbered], cited: Collection[str]) -> Choice:
    """Choose the sample of events for the offline file: cited events first, then their neighbours, then failures.

    The remaining room is filled from both ends of the run.
    """
    every, named, near, failed = _Rank(), _Rank(), _Rank(), _Rank()
    before: deque[_Entry] = deque(maxlen=AROUND)
    last: deque[_Entry] = deque(maxlen=MAX_EVENTS)
    after = total = 0
    for number, event in events:
        total += 1
        size = _FRAME_BYTES + min(2 * len(msgspec.json.encode(event)), MAX_JSON)
        entry = _Entry(number, event.event_id, size)
        every.add(entry)
        if event.event_id in cited:
            named.add(entry)
            for neighbour in before:
                near.add(neighbour)
            after = AROUND
        elif after:
            near.add(entry)
            after -= 1
        if event.status == "error":
            failed.add(entry)
        before.append(entry)
        last.append(entry)
    if not every.is_cut and sum(entry.size for entry in every.entries) <= MAX_BYTES:
        return Choice({entry.number: entry.event_id for entry in every.entries}, total, fits=True)
    ranks = (named, near, failed)
    chosen: dict[int, str] = {}
    room = MAX_BYTES
    fits = not any(rank.is_cut for rank in ranks)
    for entry in (entry for rank in ranks for entry in rank.entries):
        if entry.number in chosen:
            continue
        if len(chosen) == MAX_EVENTS or entry.size > room:
            fits = False
            break
        chosen[entry.number] = entry.event_id
        room -= entry.size
    ends = zip(every.entries, reversed(last), strict=True) if fits else ()
    for entry in (entry for both in ends for entry in both):
        if len(chosen) == MAX_EVENTS or entry.size > room:
            break
        if entry.number not in chosen:
            chosen[entry.number] = entry.event_id
            room -= entry.size
    return Choice(dict(sorted(chosen.items())), total, fits)
