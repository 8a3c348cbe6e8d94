"""Sessions that are busy for long without a sign of progress: warned about, and freed if nobody works there.

A run that works is never more than warned about, unless the configuration says when it is to be ended, so that the
messages behind it get their turn. A lane that nobody works in is stuck, and freed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

from critiqor.agentloop.queue.lanes import Lanes
from critiqor.agentloop.runs import Abort, Run
from critiqor.agentloop.settings import DiagnosticsSettings

LONGEST_PAUSE_SECONDS = 30.0
State = Literal["session.long_running", "session.stalled", "session.stuck"]


class StuckSession(NamedTuple):
    """A warning."""

    state: State
    session_key: str
    run_id: str
    silent_ms: int
    """How long nothing was heard of it."""
    activity: str | None
    """What it waits for."""
    queued: int
    """How many wait behind it."""
    action: Literal["warned", "aborted", "freed"]


class StuckSessions:
    """Looks at the sessions from time to time."""

    def __init__(
        self,
        settings: DiagnosticsSettings,
        lanes: Lanes,
        runs: Callable[[], Iterable[Run]],
        abort: Callable[[Run, Abort], object],
        warn: Callable[[StuckSession], None],
    ) -> None:
        self._settings = settings
        self._lanes = lanes
        self._runs = runs
        self._abort = abort
        self._warn = warn
        self._seen: dict[str, float] = {}
        """When a lane that nobody works in was first seen, by the one who holds it."""
        self._warned: dict[str, float] = {}
        """How long a run was silent when it was last warned about."""

    async def watch(self) -> None:
        """Look again and again, until it is cancelled."""
        pause = min(LONGEST_PAUSE_SECONDS, self._settings.stuck_session_warn_ms / 2000)
        while True:
            await asyncio.sleep(pause)
            self.look(time.monotonic())

    def look(self, now: float) -> None:
        """Look once; `now` is a monotonic time in seconds."""
        working = {run.id: run for run in self._runs()}
        for run in working.values():
            if run.started_at is not None and run.abort is None:
                self._look_at(run, now)
        self._warned = {run_id: silent for run_id, silent in self._warned.items() if run_id in working}
        self._free_lanes(working, now)

    def _look_at(self, run: Run, now: float) -> None:
        silent_ms = (now - run.progress_at) * 1000
        if silent_ms < self._settings.stuck_session_warn_ms:
            return
        limit = self._settings.stuck_session_abort_ms
        lasts = limit is not None and silent_ms >= limit
        waits_for_model = run.activity == "model_call"
        state: State = "session.long_running" if waits_for_model and not lasts else "session.stalled"
        # Again when it has lasted twice as long as at the last warning.
        if not lasts and silent_ms < 2 * self._warned.get(run.id, 0.0):
            return
        self._warned[run.id] = silent_ms
        self._tell(state, run.session.key, run.id, silent_ms, run.activity, "aborted" if lasts else "warned")
        if lasts:
            self._abort(run, Abort("stuck", f"the run timed out: no progress for {silent_ms / 1000:.0f} seconds"))

    def _free_lanes(self, working: dict[str, Run], now: float) -> None:
        held: dict[str, float] = {}
        for name in self._lanes.names():
            key = name.removeprefix("session:")
            for holder in self._lanes.state(name).active if key != name else ():
                if holder in working:
                    continue
                since = held[holder] = self._seen.get(holder, now)
                silent_ms = (now - since) * 1000
                if silent_ms >= self._settings.stuck_session_warn_ms:
                    self._tell("session.stuck", key, holder, silent_ms, None, "freed")
                    self._lanes.free(name, holder)
        self._seen = held

    def _tell(
        self,
        state: State,
        session_key: str,
        run_id: str,
        silent_ms: float,
        activity: str | None,
        action: Literal["warned", "aborted", "freed"],
    ) -> None:
        queued = self._lanes.state(f"session:{session_key}").waiting
        self._warn(StuckSession(state, session_key, run_id, round(silent_ms), activity, queued, action))
