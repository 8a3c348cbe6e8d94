"""Which events of a run are in a file: all of them, or those that matter where all would be too many.

Events are looked at one by one, and no more is kept of them than the file has room for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from typing import NamedTuple

import msgspec

from critiqor.dashboard.data.event_index import Numbered

MOST_EVENTS = 2000
MOST_BYTES = 4 << 20
"""Of the events in the file; the rest of it is small."""
AROUND = 2
"""Events before and after a cited one that are in the file with it."""
LONGEST_JSON = 12_000
"""Signs of one event as it was recorded."""
_FRAME_BYTES = 900
"""What is written around an event, about."""


class Choice(NamedTuple):
    """The events that are in the file."""

    events: dict[int, str]
    """Their ids by their numbers."""
    total: int
    """How many the run has."""
    fits: bool
    """Whether all that matter found room."""

    @property
    def is_whole(self) -> bool:
        return len(self.events) == self.total


class _Entry(NamedTuple):
    number: int
    event_id: str
    size: int


class _Rank:
    """Events that matter equally, as far as there can be room for them."""

    def __init__(self) -> None:
        self.entries: list[_Entry] = []
        self.is_cut = False

    def add(self, entry: _Entry) -> None:
        if len(self.entries) < MOST_EVENTS:
            self.entries.append(entry)
        else:
            self.is_cut = True


def choose(events: Iterable[Numbered], cited: Collection[str]) -> Choice:
    """Which of these events are in the file. Those that are cited come first, then their neighbours, then failures.

    Where there is room left, the run is filled up from both ends.
    """
    every, named, near, failed = _Rank(), _Rank(), _Rank(), _Rank()
    before: deque[_Entry] = deque(maxlen=AROUND)
    last: deque[_Entry] = deque(maxlen=MOST_EVENTS)
    after = total = 0
    for number, event in events:
        total += 1
        size = _FRAME_BYTES + min(2 * len(msgspec.json.encode(event)), LONGEST_JSON)
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
    if not every.is_cut and sum(entry.size for entry in every.entries) <= MOST_BYTES:
        return Choice({entry.number: entry.event_id for entry in every.entries}, total, fits=True)
    ranks = (named, near, failed)
    chosen: dict[int, str] = {}
    room = MOST_BYTES
    fits = not any(rank.is_cut for rank in ranks)
    for entry in (entry for rank in ranks for entry in rank.entries):
        if entry.number in chosen:
            continue
        if len(chosen) == MOST_EVENTS or entry.size > room:
            fits = False
            break
        chosen[entry.number] = entry.event_id
        room -= entry.size
    ends = zip(every.entries, reversed(last), strict=True) if fits else ()
    for entry in (entry for both in ends for entry in both):
        if len(chosen) == MOST_EVENTS or entry.size > room:
            break
        if entry.number not in chosen:
            chosen[entry.number] = entry.event_id
            room -= entry.size
    return Choice(dict(sorted(chosen.items())), total, fits)
