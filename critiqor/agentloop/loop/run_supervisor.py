"""From a run's turn to its end, whatever happens: its time is limited, and how it ended is told.

A run that is aborted has a few seconds to come to its end. One that does not is left behind: it may no longer write,
and its end is told without it, so that the next run of the session can begin.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from critiqor.agentloop.models.watchdogs import CLEANUP_SECONDS, run_limit
from critiqor.agentloop.recording.run_recording import AttemptEnd
from critiqor.agentloop.runs import Abort, Run, RunOutcome
from critiqor.agentloop.services import Services
from critiqor.errors import CritiqorError
from critiqor.model import now_ms

Work = Coroutine[Any, Any, RunOutcome]


class Supervision:
    """One run under supervision."""

    def __init__(self, run: Run, services: Services, cleanup_seconds: float = CLEANUP_SECONDS) -> None:
        self._run = run
        self._services = services
        self._cleanup_seconds = cleanup_seconds
        self._execution: asyncio.Task[RunOutcome] | None = None
        self._left_behind: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._timer: asyncio.TimerHandle | None = None
        """For the end of its time, or of what it may take to come to its end."""
        self._is_aborted = False

    async def execute(self, work: Work) -> RunOutcome:
        """Do the work of the run within its limits. This never raises, and never takes much longer than they allow."""
        run = self._run
        run.started_at = now_ms()
        seconds = run_limit(self._services.configuration, run.params)
        if seconds is not None:
            late = Abort("timeout", f"the run timed out after {seconds:g} seconds")
            self._timer = asyncio.get_running_loop().call_later(seconds, self.abort, late)
        execution = self._execution = asyncio.create_task(work)
        try:
            await self._ended(execution)
        except asyncio.CancelledError:
            # The program ends: the run has the same few seconds.
            self.abort(Abort("shutdown", "the program that ran it ended"))
            await self._ended(execution)
        finally:
            if self._timer is not None:
                self._timer.cancel()
        return self._outcome(execution)

    def abort(self, abort: Abort) -> bool:
        """End the work; it has a moment to put everything in order, which a second abort does not cut short.

        False if the work is done already.
        """
        execution = self._execution
        if execution is None or execution.done():
            return False
        if self._is_aborted:
            return True
        self._is_aborted = True
        self._run.abort = self._run.abort or abort
        execution.cancel()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(self._cleanup_seconds, self._leave_behind)
        return True

    async def _ended(self, execution: asyncio.Task[RunOutcome]) -> None:
        either: set[asyncio.Future[Any]] = {execution, self._left_behind}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)

    def _leave_behind(self) -> None:
        if self._execution is not None and not self._execution.done() and not self._left_behind.done():
            if self._run.lock is not None:
                self._run.lock.revoke()
            self._execution.add_done_callback(_ignore)
            self._left_behind.set_result(None)

    def _outcome(self, execution: asyncio.Task[RunOutcome]) -> RunOutcome:
        run = self._run
        if not execution.done():
            reason = run.abort.reason if run.abort is not None else "aborted"
            return ended_early(run, f"{reason}; it did not come to an end and was left behind")
        if execution.cancelled():
            return ended_early(run, run.abort.reason if run.abort is not None else "aborted")
        error = execution.exception()
        return execution.result() if error is None else ended_early(run, words_of(error))


def ended_early(run: Run, error: str) -> RunOutcome:
    """The outcome of a run that did not get to one of its own."""
    return RunOutcome(
        run_id=run.id,
        session_key=run.session.key,
        session_id=run.session.id,
        status="error",
        usage=run.usage,
        stop_reason="error" if run.abort is None else "aborted",
        aborted=run.abort is not None,
        abort_kind=run.abort.kind if run.abort is not None else None,
        error=error,
        started_at=run.started_at,
        ended_at=now_ms(),
    )


def tell_end(run: Run, services: Services, outcome: RunOutcome) -> None:
    """Emit the end of a run's lifecycle, once, unless it was emitted already."""
    if run.has_told_end:
        return
    told: dict[str, Any] = {
        "startedAt": outcome.started_at,
        "endedAt": outcome.ended_at,
        "aborted": outcome.aborted,
        "stopReason": outcome.stop_reason,
        "livenessState": "working" if outcome.status == "ok" else "blocked",
        "executionSettled": True,
    }
    if not run.has_told_start and outcome.joined is None:
        run.emit(services.streams, "lifecycle", phase="start", startedAt=outcome.started_at or run.accepted_at)
    if outcome.joined is not None:
        told["joinedRunId"] = outcome.joined
    if outcome.error is not None:
        told["error"] = outcome.error
    if outcome.joined is None:
        ended = AttemptEnd(outcome.error, outcome.stop_reason, outcome.aborted)
        run.recording.run_ended(run.session.agent_id, ended)
    run.emit(services.streams, "lifecycle", phase="end" if outcome.status == "ok" else "error", **told)


def words_of(error: BaseException) -> str:
    """An error in one line."""
    return error.message if isinstance(error, CritiqorError) else f"{type(error).__name__}: {error}"


def _ignore(execution: asyncio.Task[RunOutcome]) -> None:
    """Whatever comes of work that was left behind is nobody's business any more."""
    if not execution.cancelled():
        execution.exception()
