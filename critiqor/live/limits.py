"""Limits of a policy, compared with a recording in progress, and the amounts per day of a runs folder."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

import msgspec

from critiqor.live.verdict import LiveLimit
from critiqor.model import Event, iso_from_ms, ms_from_iso, now_ms
from critiqor.policy.limits import LimitReached, Limits, LimitTracker
from critiqor.policy.meters import DayAmounts
from critiqor.storage.atomic import open_regular_file, write_bytes
from critiqor.storage.lock import exclusive

MAX_AGE_MS = 60_000
"""An agent run that exceeded a limit longer ago is not stopped: this process began to watch it later."""
ADVANCE_MS = 1_000
"""How often limits on time are checked while nothing happens, and the amounts of other runs are read."""
LOCK_SECONDS = 1.0
"""How long the amounts of a run wait for those of others to be stored; after that, they are stored the next time."""
MAX_DAYS = 7
"""Days whose amounts are kept."""
MAX_RUNS = 1_000
"""Runs of a day whose amounts are kept one by one."""
MAX_BYTES = 4 << 20

_RunAmounts = dict[str, dict[str, dict[str, float]]]
"""Amounts by day, run and limit."""


class RecordingLimits:
    """Compares the events of one recording with limits, as soon as they arrive."""

    def __init__(self, limits: Limits, run_id: str, days: DayFile, known: Iterable[LiveLimit] = ()) -> None:
        self._days = days
        self._run_id = run_id
        self._others: DayAmounts = {}
        self._amounts: DayAmounts = {}
        self._tracker = LimitTracker(limits, self._amounts)
        self._has_days = any(limit.per == "day" for limit in limits.given.values())
        self._known = {_key(limit) for limit in known}
        self._advanced_at = now_ms()
        self._read_at = 0

    def observe(self, events: Iterable[Event], *, is_over: bool) -> list[LiveLimit]:
        """Compare events that have arrived, and the time that has passed. Return the limits that were exceeded."""
        now = now_ms()
        if self._has_days and now - self._read_at >= ADVANCE_MS:
            self._read_at = now
            self._read_others()
        reached = [limit for event in events for limit in self._tracker.observe(event)]
        if not is_over and now - self._advanced_at >= ADVANCE_MS:
            self._advanced_at = now
            reached += self._tracker.advance(now)
        found = [_live_limit(limit, now) for limit in reached]
        # The tracker reports each limit once; what is known was reported by a process before this one.
        return [limit for limit in found if _key(limit) not in self._known]

    def save(self) -> None:
        """Store the amounts of this run for other runs of the same day."""
        if self._has_days:
            own = {
                day: {name: value - self._others.get(day, {}).get(name, 0.0) for name, value in amounts.items()}
                for day, amounts in self._amounts.items()
            }
            with contextlib.suppress(TimeoutError):
                self._days.save(self._run_id, own)

    def _read_others(self) -> None:
        """Add what other runs have spent in the meantime. What was spent stays so, whatever becomes of the file."""
        for day, amounts in self._days.amounts_without(self._run_id).items():
            others, sums = self._others.setdefault(day, {}), self._amounts.setdefault(day, {})
            for name, value in amounts.items():
                more = max(0.0, value - others.get(name, 0.0))
                others[name] = others.get(name, 0.0) + more
                sums[name] = sums.get(name, 0.0) + more


def _live_limit(limit: LimitReached, now: int) -> LiveLimit:
    place = limit.event_id.split("_") if limit.event_id else []
    at = int(place[1], 36) if len(place) == 4 else now
    return LiveLimit(
        name=limit.name,
        action=limit.action,
        text=limit.text,
        session_key=limit.session_key,
        agent_run_id=limit.agent_run_id,
        event_id=limit.event_id,
        at=iso_from_ms(at),
    )


def is_recent(limit: LiveLimit) -> bool:
    """Return whether a limit was exceeded just now, so that what exceeded it is still to be stopped."""
    at = ms_from_iso(limit.at)
    return at is None or now_ms() - at <= MAX_AGE_MS


def _key(limit: LiveLimit) -> tuple[str | None, ...]:
    return (limit.name, limit.session_key, limit.agent_run_id, limit.event_id)


class DayFile:
    """The amounts of all runs of a folder, by day: one file beside the runs."""

    def __init__(self, runs_dir: Path) -> None:
        self._path = runs_dir / ".limits.json"
        self._lock_path = runs_dir / ".limits.lock"

    def amounts_without(self, run_id: str) -> DayAmounts:
        """Return the amounts of all other runs, by day and limit."""
        sums: DayAmounts = {}
        for day, runs in self._read().items():
            for other, amounts in runs.items():
                for name, value in amounts.items() if other != run_id else ():
                    day_sums = sums.setdefault(day, {})
                    day_sums[name] = day_sums.get(name, 0.0) + value
        return sums

    def save(self, run_id: str, amounts: DayAmounts) -> None:
        """Replace the amounts of one run; old days are dropped. Raise `TimeoutError` if others store theirs."""
        with exclusive(self._lock_path, timeout=LOCK_SECONDS):
            days = self._read()
            for day, own in amounts.items():
                days.setdefault(day, {})[run_id] = own
            kept = {day: dict(list(days[day].items())[-MAX_RUNS:]) for day in sorted(days)[-MAX_DAYS:]}
            write_bytes(self._path, msgspec.json.encode(kept), synced=False)

    def _read(self) -> _RunAmounts:
        try:
            with open_regular_file(self._path) as file:
                return msgspec.json.decode(file.read(MAX_BYTES), type=_RunAmounts)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return {}
