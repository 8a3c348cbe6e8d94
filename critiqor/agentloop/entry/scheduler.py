"""Scheduled runs of a server: messages to an agent at a time, or repeatedly. A file keeps them across restarts.

A scheduled run has the trigger `cron` and, unless a session is given, a session of its own. A repetition that is due
while the run before it is still in progress is left out. A run that was due while no server was running starts with
the next server.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from pathlib import Path
from uuid import uuid4

import msgspec

from critiqor.agentloop.entry.runtime import AgentRuntime
from critiqor.agentloop.runs import AgentParams
from critiqor.agentloop.services import LOOP_FOLDER
from critiqor.errors import CritiqorError, UsageError
from critiqor.model import now_ms
from critiqor.storage.atomic import write_json
from critiqor.storage.paths import FOLDER_MODE

MAX_SCHEDULED = 1_000
MIN_EVERY_SECONDS = 1.0
_LONGEST_WAIT_S = 60.0
"""After this time, the clock is read again: it may have been changed, or the machine was suspended."""


class Schedule(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """When a run is to start."""

    at: int | None = None
    """Milliseconds since 1970; the default is `every_seconds` from now."""
    every_seconds: float | None = None
    """Seconds between repetitions; None for a single run."""


class ScheduledRun(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A run that will start."""

    id: str
    params: AgentParams
    next_at: int
    """Milliseconds since 1970."""
    every_seconds: float | None = None
    last_run_id: str | None = None
    problem: str | None = None
    """Why the last repetition did not start."""


class Scheduler:
    """Starts the scheduled runs of a runtime."""

    def __init__(self, runtime: AgentRuntime) -> None:
        self._runtime = runtime
        self._path = runtime.services.state_folder / LOOP_FOLDER / "schedule.json"
        self._runs: dict[str, ScheduledRun] = {}
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Read the file and begin to start runs. Raises `UsageError` if the file cannot be read."""
        self._runs = {run.id: run for run in _read(self._path)}
        self._task = asyncio.create_task(self._start_runs())

    async def close(self) -> None:
        """Start no more runs; the file keeps them."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def add(self, params: AgentParams, schedule: Schedule) -> ScheduledRun:
        """Schedule a run. Raises `UsageError` if it could never start."""
        params.validate()
        every = schedule.every_seconds
        if every is not None and not (every >= MIN_EVERY_SECONDS and math.isfinite(every)):
            raise UsageError(f"{every:g} is not a valid repetition", fix="repeat at most once per second")
        if schedule.at is None and every is None:
            raise UsageError("the run has no time", fix="give at, everySeconds or both")
        if len(self._runs) >= MAX_SCHEDULED:
            raise UsageError(f"{MAX_SCHEDULED} runs are already scheduled", fix="cancel some: critiqor agent cancel ID")
        at = schedule.at if schedule.at is not None else now_ms() + round((every or 0) * 1000)
        if at < now_ms() - 1000:
            raise UsageError("the time of the run is in the past", fix="give a later one")
        run = ScheduledRun(id=f"schedule-{uuid4().hex[:8]}", params=params, next_at=at, every_seconds=every)
        self._runs[run.id] = run
        self._save()
        return run

    def runs(self) -> list[ScheduledRun]:
        """Return the scheduled runs, the next one first."""
        return sorted(self._runs.values(), key=lambda run: run.next_at)

    def remove(self, schedule_id: str) -> bool:
        """Remove a scheduled run; one that has started goes on. Return False if there is none with this id."""
        if self._runs.pop(schedule_id, None) is None:
            return False
        self._save()
        return True

    def _save(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
        write_json(self._path, self.runs())
        self._changed.set()

    async def _start_runs(self) -> None:
        while True:
            self._changed.clear()
            seconds = min((run.next_at - now_ms()) / 1000 for run in self._runs.values()) if self._runs else math.inf
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(max(seconds, 0.0), _LONGEST_WAIT_S)):
                    await self._changed.wait()
            for run in [run for run in self.runs() if run.next_at <= now_ms()]:
                with contextlib.suppress(OSError):  # a full disk: the run starts, and the file is written later
                    await self._start(run)

    async def _start(self, run: ScheduledRun) -> None:
        if run.every_seconds is None:
            del self._runs[run.id]
        else:
            behind = (now_ms() - run.next_at) / 1000 // run.every_seconds + 1
            self._runs[run.id] = msgspec.structs.replace(
                run, next_at=run.next_at + round(behind * run.every_seconds * 1000)
            )
        if await self._is_in_progress(run):
            return
        run_id, problem = None, None
        try:
            run_id = (await self._runtime.agent(_params_of(run, self._default_agent))).run_id
        except (CritiqorError, OSError) as error:
            problem = error.message if isinstance(error, CritiqorError) else str(error)
            self._runtime.services.diagnostics.mark("schedule.failed", reason=problem)
        if run.id in self._runs:
            changes = {"last_run_id": run_id or run.last_run_id, "problem": problem}
            self._runs[run.id] = msgspec.structs.replace(self._runs[run.id], **changes)
        self._save()

    async def _is_in_progress(self, run: ScheduledRun) -> bool:
        if run.last_run_id is None:
            return False
        try:
            return (await self._runtime.wait(run.last_run_id, 0)).status == "timeout"
        except UsageError:
            return False  # it ended long ago, or before this server started

    @property
    def _default_agent(self) -> str:
        return self._runtime.services.configuration.default_agent


def _params_of(run: ScheduledRun, default_agent: str) -> AgentParams:
    params = msgspec.structs.replace(run.params, trigger="cron", run_id=None)
    if params.session_key is None and params.session_id is None:
        agent = params.agent_id or default_agent
        params = msgspec.structs.replace(params, session_key=f"agent:{agent}:cron:{run.id}:{run.next_at}")
    return params


def _read(path: Path) -> list[ScheduledRun]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[ScheduledRun])
    except FileNotFoundError:
        return []
    except (OSError, msgspec.DecodeError, RecursionError) as error:
        raise UsageError(f"{path} cannot be read: {error}", fix=f"correct or remove {path}") from error
