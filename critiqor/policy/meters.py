"""Meters: the amounts that limits are compared with, by agent run, session, run or day, and what happened in a row."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Literal, NamedTuple

import msgspec

from critiqor.model import Scope

Per = Literal["agent_run", "session", "run", "day"]

MAX_SCOPES = 4096
"""Agent runs, sessions and days whose amounts are kept: those with the latest events."""
MAX_KNOWN_CALLS = 1024
"""Calls of an agent run whose last result is kept, to recognize repetitions."""
DayAmounts = dict[str, dict[str, float]]
"""Amounts by day in UTC and name of the limit, as plain values that can be stored."""


class Place(NamedTuple):
    """Where something happened."""

    scope: Scope
    day: str
    """The day in UTC."""
    event_id: str | None
    """None if only time has passed."""


class Meter:
    """The amounts of one limit, by agent run, session, run or day."""

    def __init__(self, name: str, per: Per, allowed: float, days: DayAmounts) -> None:
        self.is_estimated = False
        self._name = name
        self._per = per
        self._allowed = allowed
        self._days = days
        self._amounts: OrderedDict[Hashable, float] = OrderedDict()
        self._exceeded: set[Hashable] = set()

    def key_of(self, place: Place) -> Hashable:
        """Return what an amount is counted for."""
        scope, per = place.scope, self._per
        if per == "agent_run" or (per == "session" and scope.session_key is None):
            return scope
        return scope.session_key if per == "session" else place.day if per == "day" else None

    def add(self, amount: float, place: Place) -> float | None:
        """Count an amount. Return the sum if it exceeds what is allowed for the first time."""
        before = self._amounts.get(self.key_of(place), 0.0)
        if self._per == "day":
            before = self._days.setdefault(place.day, {}).get(self._name, 0.0)
            self._days[place.day][self._name] = before + amount
        return self.set(before + amount, place)

    def set(self, amount: float, place: Place) -> float | None:
        """Set an amount. Return it if it exceeds what is allowed for the first time."""
        key = self.key_of(place)
        self._amounts[key] = amount
        self._amounts.move_to_end(key)
        if len(self._amounts) > MAX_SCOPES:
            self._exceeded.discard(self._amounts.popitem(last=False)[0])
        # Sums of prices are not exact: a limit of 0.3 allows three calls of 0.1.
        if amount - self._allowed <= 1e-9 or key in self._exceeded:
            return None
        self._exceeded.add(key)
        return amount


class OpenCall(msgspec.Struct):
    """A tool call while its result is awaited."""

    tool: str
    arguments: str
    same_call: bytes
    """Fingerprint of tool and arguments."""
    wraps: bool = False
    """Whether it made another tool call."""
    is_own: bool = False
    """Whether it is a call of Critiqor's own tools, which no limit counts."""


class Streaks:
    """What happened in a row: repeated calls and failures."""

    def __init__(self) -> None:
        self.failures = 0
        self._results: OrderedDict[bytes, bytes] = OrderedDict()
        """The last result of every call, as fingerprints."""
        self._repeats: dict[bytes, int] = {}
        """How often calls were made again since the last news."""

    def count_repeat(self, call: OpenCall) -> int:
        """Count a call that begins. Return how often it was made again since the last news."""
        if call.same_call not in self._results:
            return 0
        count = self._repeats[call.same_call] = self._repeats.get(call.same_call, 0) + 1
        return count

    def add_result(self, call: OpenCall, mark: bytes) -> None:
        """Count the result of a call: another one than the last time, or the first one, ends a streak of repeats."""
        if self._results.pop(call.same_call, None) != mark:
            self._repeats.clear()
        self._results[call.same_call] = mark
        if len(self._results) > MAX_KNOWN_CALLS:
            self._results.popitem(last=False)
