"""Supervision of a run: its time limit, abort with a grace period, and the single end of its lifecycle.

An aborted run has a few seconds to clean up. A run that does not end within them is abandoned: it can no longer write
to the transcript, and its end is emitted without waiting for it, so that the next run of the session can start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import msgspec

from critiqor.agentloop.configuration import LoopConfiguration
from critiqor.agentloop.loop.run_result import build_failed_outcome
from critiqor.agentloop.recording.run_recording import AttemptEnd
from critiqor.agentloop.runs import Abort, AgentParams, Run, RunOutcome
from critiqor.agentloop.services import Services
from critiqor.model import now_ms

CLEANUP_SECONDS = 5.0
"""Time that an aborted run has for its cleanup before it is abandoned."""

Work = Coroutine[Any, Any, RunOutcome]
_ANNOUNCED_ABORTS = ("timeout", "stuck")
"""Aborts that nobody asked for, so the user is informed on the channel."""


class RunSupervisor:
    """Executes one run within its limits."""

    def __init__(self, run: Run, services: Services, cleanup_seconds: float = CLEANUP_SECONDS) -> None:
        self._run = run
        self._services = services
        self._cleanup_seconds = cleanup_seconds
        self._execution: asyncio.Task[RunOutcome] | None = None
        self._abandoned: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._timer: asyncio.TimerHandle | None = None
        """The time limit of the run; after an abort, the grace period for its cleanup."""
        self._is_aborted = False

    async def execute(self, work: Work) -> RunOutcome:
        """Execute the work of the run. Never raises, and takes at most the time limit and the grace period."""
        run = self._run
        run.started_at = now_ms()
        with self._services.diagnostics.span("agent.turn", run_id=run.id, trigger=run.params.trigger) as turn:
            outcome = await self._execute(work)
            if outcome.error is not None:
                turn.fail("AgentRunAborted" if outcome.aborted else "AgentRunFailed", outcome.error)
        return outcome

    async def _execute(self, work: Work) -> RunOutcome:
        run = self._run
        seconds = run_timeout(self._services.configuration, run.params)
        if seconds is not None:
            timeout = Abort("timeout", f"the agent run timed out after {seconds:g} seconds")
            self._timer = asyncio.get_running_loop().call_later(seconds, self.abort, timeout)
        execution = self._execution = asyncio.create_task(work)
        try:
            await self._wait_for_end(execution)
        except asyncio.CancelledError:
            # The process shuts down: the run gets the same grace period.
            self.abort(Abort("shutdown", "the process ended before the agent run did"))
            await self._wait_for_end(execution)
        finally:
            if self._timer is not None:
                self._timer.cancel()
        return await self._outcome(execution)

    def abort(self, abort: Abort) -> bool:
        """Cancel the work and start the grace period, which a second abort does not shorten.

        Return False if the work has already ended.
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
        self._timer = asyncio.get_running_loop().call_later(self._cleanup_seconds, self._abandon)
        return True

    async def _wait_for_end(self, execution: asyncio.Task[RunOutcome]) -> None:
        either: set[asyncio.Future[Any]] = {execution, self._abandoned}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)

    def _abandon(self) -> None:
        if self._execution is not None and not self._execution.done() and not self._abandoned.done():
            if self._run.lock is not None:
                self._run.lock.revoke()
            self._execution.add_done_callback(_ignore_result)
            self._abandoned.set_result(None)

    async def _outcome(self, execution: asyncio.Task[RunOutcome]) -> RunOutcome:
        run = self._run
        reason = run.abort.reason if run.abort is not None else "aborted"
        if not execution.done():
            return await self._failed(f"{reason}; the agent run did not stop in time and was abandoned")
        if execution.cancelled():
            return await self._failed(reason)
        error = execution.exception()
        return execution.result() if error is None else await self._failed(error)

    async def _failed(self, error: str | BaseException) -> RunOutcome:
        """Return the outcome of a run that did not end by itself, and inform its user unless the user aborted it."""
        run = self._run
        outcome = build_failed_outcome(run, error)
        if run.abort is not None and run.abort.kind not in _ANNOUNCED_ABORTS:
            run.replies.close()
            return outcome
        replies = await run.replies.end_aborted(str(outcome.error), self._cleanup_seconds)
        return msgspec.structs.replace(outcome, payloads=replies.payloads, delivery=replies.delivery)


def emit_run_end(run: Run, services: Services, outcome: RunOutcome) -> None:
    """Emit the end of the lifecycle of a run that is supervised, unless it was already emitted."""
    if run.has_emitted_end:
        return
    data: dict[str, Any] = {
        "startedAt": outcome.started_at,
        "endedAt": outcome.ended_at,
        "aborted": outcome.aborted,
        "stopReason": outcome.stop_reason,
        "livenessState": "working" if outcome.status == "ok" else "blocked",
        "executionSettled": True,
    }
    if not run.has_emitted_start and outcome.joined is None:
        run.emit(services.streams, "lifecycle", phase="start", startedAt=outcome.started_at or run.accepted_at)
    if outcome.joined is not None:
        data["joinedRunId"] = outcome.joined
    if outcome.error is not None:
        data["error"] = outcome.error
    if outcome.joined is None:
        ended = AttemptEnd(outcome.error, outcome.stop_reason, outcome.aborted)
        run.recording.run_ended(run.session.agent_id, ended)
    run.emit(services.streams, "lifecycle", phase="end" if outcome.status == "ok" else "error", **data)


def _ignore_result(execution: asyncio.Task[RunOutcome]) -> None:
    """Retrieve the exception of abandoned work, which asyncio would log otherwise."""
    if not execution.cancelled():
        execution.exception()


def run_timeout(configuration: LoopConfiguration, params: AgentParams) -> float | None:
    """Return how many seconds a run may take; None for no limit."""
    if params.timeout_seconds is not None:
        return params.timeout_seconds or None
    return configuration.run_timeout_seconds
