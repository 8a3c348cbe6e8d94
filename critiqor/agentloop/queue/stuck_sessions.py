"""Watchdog for sessions that are busy for a long time without progress.

A run without progress only causes warnings, unless `stuckSessionAbortMs` is configured: then it is aborted, so that the
messages behind it get their turn. A session lane that is held by no existing run is stuck, and is freed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

from critiqor.agentloop.queue.lanes import Lanes
from critiqor.agentloop.runs import Abort, Run
from critiqor.agentloop.settings import DiagnosticsSettings

MAX_PAUSE_SECONDS = 30.0
State = Literal["session.long_running", "session.stalled", "session.stuck"]


class StuckSessionWarning(NamedTuple):
    """A warning about a session without progress. The field names are those of the timeline event."""

    state: State
    session_key: str
    run_id: str
    silent_ms: int
    """Milliseconds since the last event of the run."""
    activity: str | None
    """What the run waits for: `model_call`, `tool_call`."""
    queued: int
    """Number of runs that wait behind it."""
    action: Literal["warned", "aborted", "freed"]


class StuckSessionWatchdog:
    """Checks all runs and session lanes periodically."""

    def __init__(
        self,
        settings: DiagnosticsSettings,
        lanes: Lanes,
        runs: Callable[[], Iterable[Run]],
        abort: Callable[[Run, Abort], object],
        warn: Callable[[StuckSessionWarning], None],
    ) -> None:
        self._settings = settings
        self._lanes = lanes
        self._runs = runs
        self._abort = abort
        self._warn = warn
        self._orphans: dict[str, float] = {}
        """When a lane held by no existing run was first seen, in monotonic seconds, by holder."""
        self._warned: dict[str, float] = {}
        """Milliseconds without progress at the last warning, by run id."""

    async def watch(self) -> None:
        """Check periodically until cancelled."""
        pause = min(MAX_PAUSE_SECONDS, self._settings.stuck_session_warn_ms / 2000)
        while True:
            await asyncio.sleep(pause)
            self.check(time.monotonic())

    def check(self, now: float) -> None:
        """Check once; `now` is a monotonic time in seconds."""
        runs = {run.id: run for run in self._runs()}
        for run in runs.values():
            if run.started_at is not None and run.abort is None:
                self._check_run(run, now)
        self._warned = {run_id: silent for run_id, silent in self._warned.items() if run_id in runs}
        self._free_lanes(runs, now)

    def _check_run(self, run: Run, now: float) -> None:
        silent_ms = (now - run.progress_at) * 1000
        if silent_ms < self._settings.stuck_session_warn_ms:
            return
        limit = self._settings.stuck_session_abort_ms
        is_over_limit = limit is not None and silent_ms >= limit
        is_model_call = run.activity == "model_call"
        state: State = "session.long_running" if is_model_call and not is_over_limit else "session.stalled"
        # Warn again only after twice the time of the last warning.
        if not is_over_limit and silent_ms < 2 * self._warned.get(run.id, 0.0):
            return
        self._warned[run.id] = silent_ms
        self._report(state, run.session.key, run.id, silent_ms, run.activity, "aborted" if is_over_limit else "warned")
        if is_over_limit:
            self._abort(run, Abort("stuck", f"the agent run timed out: no progress for {silent_ms / 1000:.0f} seconds"))

    def _free_lanes(self, runs: dict[str, Run], now: float) -> None:
        orphans: dict[str, float] = {}
        for name in self._lanes.names():
            key = name.removeprefix("session:")
            for holder in self._lanes.state(name).active if key != name else ():
                if holder in runs:
                    continue
                since = orphans[holder] = self._orphans.get(holder, now)
                silent_ms = (now - since) * 1000
                if silent_ms >= self._settings.stuck_session_warn_ms:
                    self._report("session.stuck", key, holder, silent_ms, None, "freed")
                    self._lanes.free(name, holder)
        self._orphans = orphans

    def _report(
        self,
        state: State,
        session_key: str,
        run_id: str,
        silent_ms: float,
        activity: str | None,
        action: Literal["warned", "aborted", "freed"],
    ) -> None:
        queued = self._lanes.state(f"session:{session_key}").waiting
        self._warn(StuckSessionWarning(state, session_key, run_id, round(silent_ms), activity, queued, action))
