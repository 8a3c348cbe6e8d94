"""Dispatcher: passes runs through their lanes, executes them, and ensures that each run ends exactly once."""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict

import msgspec

from critiqor.agentloop.loop.run_executor import execute_run
from critiqor.agentloop.loop.run_result import build_aborted_outcome, build_failed_outcome
from critiqor.agentloop.loop.run_supervisor import RunSupervisor, emit_run_end
from critiqor.agentloop.queue.inbox import Inbox
from critiqor.agentloop.replies.reply_pipeline import ReplyPipeline
from critiqor.agentloop.runs import Abort, Run, RunOutcome
from critiqor.agentloop.services import Services
from critiqor.agentloop.settings import QueueMode
from critiqor.errors import UsageError

MAX_KEPT_OUTCOMES = 1_000
"""Outcomes of ended runs that can still be queried."""
MAX_SUBAGENTS = 8
"""Subagent runs that execute concurrently."""
_LANES = {"cron": "cron", "subagent": "subagent"}
"""Global lanes of background runs, so that they do not delay users; all other triggers share `main`."""


class Dispatcher:
    """All active and queued runs, and the outcomes of the latest ended ones."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._runs: dict[str, Run] = {}
        self._ended: OrderedDict[str, RunOutcome] = OrderedDict()
        self._inboxes: dict[str, Inbox] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._supervisors: dict[str, RunSupervisor] = {}

    def runs(self) -> list[Run]:
        """Return the runs that have not ended."""
        return list(self._runs.values())

    def run(self, run_id: str) -> Run | None:
        """Return a run that has not ended."""
        return self._runs.get(run_id)

    def is_known(self, run_id: str) -> bool:
        """Whether a run with this id is active, queued or recently ended."""
        return run_id in self._runs or run_id in self._ended

    def outcome(self, run_id: str) -> RunOutcome:
        """Return the outcome of an ended run. Raises `UsageError` for an unknown run."""
        outcome = self._ended.get(run_id)
        if outcome is None:
            raise UsageError(f"there is no agent run {run_id}", fix="use the run id that `agent` returned")
        return outcome

    def dispatch(self, run: Run) -> None:
        """Start or queue a run, or let another run answer its message, depending on the queue mode."""
        key = run.session.key
        run.replies = ReplyPipeline(run, self._services)
        if run.command is not None and run.command.name == "stop":
            self._stop(key)
        inbox = self._inboxes.get(key)
        if inbox is None:
            inbox = self._inboxes[key] = Inbox(self._services.configuration.queue, self._drop)
        run.answered_by = inbox.add(run, self._queue_mode(run), self.abort)
        self._runs[run.id] = run
        if run.answered_by is None:
            self._start(run)

    def _queue_mode(self, run: Run) -> QueueMode | None:
        """Return the queue mode of a message; None for commands and messages without a channel, which only wait."""
        params = run.params
        if run.command is not None or run.external is not None:
            return None
        return params.queue_mode or (
            self._services.configuration.queue.mode_for(params.channel) if params.channel else None
        )

    def _stop(self, key: str) -> None:
        for run in [run for run in self._runs.values() if run.session.key == key]:
            self.abort(run, Abort("cancelled", "stopped by /stop"))

    def _start(self, run: Run) -> None:
        inbox = self._inboxes[run.session.key]
        task = self._tasks[run.id] = asyncio.create_task(self._execute(run, inbox))
        task.add_done_callback(lambda _: self._settle_if_open(run, inbox))

    def _settle_if_open(self, run: Run, inbox: Inbox) -> None:
        # A task that is cancelled before it first runs never executes its `finally` block.
        if not run.done.done():
            self._settle(run, inbox, build_aborted_outcome(run))

    async def _execute(self, run: Run, inbox: Inbox) -> None:
        """Take a run through its lanes, then execute it."""
        lanes = self._services.lanes
        tickets = []
        outcome: RunOutcome | None = None
        try:
            tickets.append(await lanes.enter(f"session:{run.session.key}", run.id))
            await inbox.wait_until_quiet(run)
            tickets.append(await lanes.enter(_LANES.get(run.params.trigger, "main"), run.id, self._lane_limit(run)))
            inbox.begin(run)
            run.session = self._services.sessions.current(run.session, pinned=run.params.session_id is not None)
            supervisor = self._supervisors[run.id] = RunSupervisor(run, self._services)
            outcome = await supervisor.execute(execute_run(run, self._services))
        except asyncio.CancelledError:
            outcome = build_aborted_outcome(run)
        except Exception as error:
            outcome = build_failed_outcome(run, error)
        finally:
            self._settle(run, inbox, outcome or build_failed_outcome(run, "aborted"))
            for ticket in tickets:
                ticket.leave()

    def _lane_limit(self, run: Run) -> int:
        is_child = run.params.trigger == "subagent"
        return MAX_SUBAGENTS if is_child else self._services.configuration.defaults.max_concurrent

    def abort(self, run: Run, abort: Abort) -> bool:
        """Abort a queued or executing run. Return False if it has ended or cannot be aborted."""
        if run.done.done():
            return False
        supervisor, task = self._supervisors.get(run.id), self._tasks.get(run.id)
        if supervisor is not None:
            return supervisor.abort(abort)
        if task is not None:
            run.abort = run.abort or abort
            task.cancel()
        elif run.answered_by is not None and run.answered_by.release_message(run):
            run.abort = abort
            self._drop(run, abort.reason)
        else:
            return False  # another run answers the message, and its model may have seen it
        return True

    def _drop(self, run: Run, reason: str) -> None:
        """Drop a message without answering it."""
        task = self._tasks.get(run.id)
        if task is not None:
            run.abort = run.abort or Abort("cancelled", reason)
            task.cancel()
        else:
            self._finish(run, build_failed_outcome(run, reason))

    def _settle(self, run: Run, inbox: Inbox, outcome: RunOutcome) -> None:
        for unanswered in inbox.end(run):
            unanswered.answered_by = None
            self._start(unanswered)
        self._finish(run, outcome)
        for joined in run.joined:
            changes = {"run_id": joined.id, "joined": run.id, "payloads": []}
            self._finish(joined, msgspec.structs.replace(outcome, **changes))
        if inbox.is_idle:
            self._inboxes.pop(run.session.key, None)
        if outcome.aborted:
            # Last, and failures are ignored: everything above must happen even if the disk is full.
            with contextlib.suppress(OSError):
                self._services.sessions.update(run.session, aborted_last_run=True)

    def _finish(self, run: Run, outcome: RunOutcome) -> None:
        emit_run_end(run, self._services, outcome)
        self._services.streams.forget(run.id)
        for table in (self._runs, self._tasks, self._supervisors):
            table.pop(run.id, None)
        self._ended[run.id] = outcome
        if len(self._ended) > MAX_KEPT_OUTCOMES:
            self._ended.popitem(last=False)
        if not run.done.done():
            run.done.set_result(outcome)
