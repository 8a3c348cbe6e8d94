"""Lanes: queues that let a limited number through at a time, in the order in which they came.

A run passes two: the lane of its session, which lets one through, and a global lane, which limits what goes on in all
sessions together. A lane that nobody uses is forgotten.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import NamedTuple


class LaneState(NamedTuple):
    """How full a lane is."""

    active: tuple[str, ...]
    """Whoever is in it."""
    waiting: int


class Ticket:
    """The right to be in a lane, until `leave`."""

    def __init__(self, lane: _Lane, holder: str) -> None:
        self._lane = lane
        self.holder = holder

    def leave(self) -> None:
        """Let the next one in. Leaving twice, or after the lane was freed, does nothing."""
        self._lane.leave(self)


class Lanes:
    """All lanes by name."""

    def __init__(self) -> None:
        self._lanes: dict[str, _Lane] = {}

    async def enter(self, name: str, holder: str, limit: int = 1) -> Ticket:
        """Wait for a place in a lane that `limit` may use at a time."""
        lane = self._lanes.get(name)
        if lane is None:
            lane = self._lanes[name] = _Lane(limit)
        try:
            return await lane.enter(holder)
        finally:
            self._forget(name, lane)

    def state(self, name: str) -> LaneState:
        """Who is in a lane, and how many wait."""
        lane = self._lanes.get(name)
        if lane is None:
            return LaneState((), 0)
        return LaneState(tuple(ticket.holder for ticket in lane.active), len(lane.waiting))

    def names(self) -> list[str]:
        """Lanes that somebody is in or waits for."""
        self._forget_all()
        return list(self._lanes)

    def free(self, name: str, holder: str) -> bool:
        """Let the next one in although this holder never left; True if it was in the lane."""
        lane = self._lanes.get(name)
        ticket = next((ticket for ticket in lane.active if ticket.holder == holder), None) if lane else None
        if ticket is not None:
            ticket.leave()
        return ticket is not None

    def _forget(self, name: str, lane: _Lane) -> None:
        if len(self._lanes) > _MANY_LANES:
            self._forget_all()
        elif lane.is_idle and self._lanes.get(name) is lane:
            del self._lanes[name]

    def _forget_all(self) -> None:
        for name in [name for name, lane in self._lanes.items() if lane.is_idle]:
            del self._lanes[name]


_MANY_LANES = 64


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
        # Most lanes are never waited for, and there are as many as there are sessions.
        self.waiting = self.waiting or deque()
        self.waiting.append((turn, holder))
        try:
            return await turn
        except asyncio.CancelledError:
            # Cancelled in the very moment in which it was let in: then the next one is.
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
