"""Lanes: first-in, first-out queues that admit a limited number of runs at a time.

A run passes through two lanes: the lane of its session, which admits one run, and a global lane, which limits the runs
of all sessions together. Unused lanes are removed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import NamedTuple

_CLEANUP_THRESHOLD = 64
"""Number of lanes above which all idle ones are removed at once."""


class LaneState(NamedTuple):
    """How full a lane is."""

    active: tuple[str, ...]
    """Ids of the runs in the lane."""
    waiting: int
    """Number of runs that wait for it."""


class Ticket:
    """A place in a lane, held until `leave`."""

    def __init__(self, lane: _Lane, holder: str) -> None:
        self._lane = lane
        self.holder = holder

    def leave(self) -> None:
        """Give up the place and admit the next run. Does nothing if the place was already given up."""
        self._lane.leave(self)


class Lanes:
    """All lanes by name."""

    def __init__(self) -> None:
        self._lanes: dict[str, _Lane] = {}

    async def enter(self, name: str, holder: str, limit: int = 1) -> Ticket:
        """Wait for a place in a lane that admits `limit` runs at a time."""
        lane = self._lanes.get(name)
        if lane is None:
            lane = self._lanes[name] = _Lane(limit)
        try:
            return await lane.enter(holder)
        finally:
            self._remove_if_idle(name, lane)

    def state(self, name: str) -> LaneState:
        """Return the active and waiting runs of a lane."""
        lane = self._lanes.get(name)
        if lane is None:
            return LaneState((), 0)
        return LaneState(tuple(ticket.holder for ticket in lane.active), len(lane.waiting))

    def names(self) -> list[str]:
        """Return the names of the lanes that hold or queue runs."""
        self._remove_idle()
        return list(self._lanes)

    def free(self, name: str, holder: str) -> bool:
        """Free the place of a holder that never left. Return True if it was in the lane."""
        lane = self._lanes.get(name)
        ticket = next((ticket for ticket in lane.active if ticket.holder == holder), None) if lane else None
        if ticket is not None:
            ticket.leave()
        return ticket is not None

    def _remove_if_idle(self, name: str, lane: _Lane) -> None:
        if len(self._lanes) > _CLEANUP_THRESHOLD:
            self._remove_idle()
        elif lane.is_idle and self._lanes.get(name) is lane:
            del self._lanes[name]

    def _remove_idle(self) -> None:
        for name in [name for name, lane in self._lanes.items() if lane.is_idle]:
            del self._lanes[name]


class _Lane:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.active: list[Ticket] = []
        self.waiting: deque[tuple[asyncio.Future[Ticket], str]] | tuple[()] = ()

    @property
    def is_idle(self) -> bool:
        return not self.active and not self.waiting

    async def enter(self, holder: str) -> Ticket:
        if self._has_room() and not self.waiting:
            return self._admit(holder)
        turn: asyncio.Future[Ticket] = asyncio.get_running_loop().create_future()
        # Created on demand: there is a lane per session, and most have no waiting runs.
        self.waiting = self.waiting or deque()
        self.waiting.append((turn, holder))
        try:
            return await turn
        except asyncio.CancelledError:
            # Cancelled at the moment it was admitted: pass the place on.
            if turn.done() and not turn.cancelled():
                turn.result().leave()
            self.waiting = deque(place for place in self.waiting if place[0] is not turn)
            raise

    def leave(self, ticket: Ticket) -> None:
        if ticket not in self.active:
            return
        self.active.remove(ticket)
        while self.waiting and self._has_room():
            turn, holder = self.waiting.popleft()
            if not turn.done():
                turn.set_result(self._admit(holder))

    def _admit(self, holder: str) -> Ticket:
        ticket = Ticket(self, holder)
        self.active.append(ticket)
        return ticket

    def _has_room(self) -> bool:
        return len(self.active) < self._limit
