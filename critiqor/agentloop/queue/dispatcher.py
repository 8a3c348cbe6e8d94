"""Dispatch: messages get their turn in the lane of their session, and whatever happens, an end that is told once."""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict

import msgspec

from critiqor.agentloop.loop.run_executor import do_work
from critiqor.agentloop.loop.run_supervisor import Supervision, ended_early, tell_end, words_of
from critiqor.agentloop.queue.inbox import Inbox
from critiqor.agentloop.runs import Abort, Run, RunOutcome
from critiqor.agentloop.services import Services
from critiqor.agentloop.settings import QueueMode
from critiqor.errors import UsageError

KEPT_OUTCOMES = 1_000
"""Runs that have ended and can still be asked about."""
SUBAGENTS_AT_A_TIME = 8
_LANES = {"cron": "cron", "subagent": "subagent"}
"""Of what goes on in the background, so that it does not keep users waiting; everything else shares `main`."""


class Dispatcher:
    """All runs that are under way, and the latest that have ended."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._runs: dict[str, Run] = {}
        self._ended: OrderedDict[str, RunOutcome] = OrderedDict()
        self._inboxes: dict[str, Inbox] = {}
        self._turns: dict[str, asyncio.Task[None]] = {}
        self._supervised: dict[str, Supervision] = {}

    def runs(self) -> list[Run]:
        """Runs that have not ended."""
        return list(self._runs.values())

    def run(self, run_id: str) -> Run | None:
        """A run that has not ended."""
        return self._runs.get(run_id)

    def knows(self, run_id: str) -> bool:
        """Whether there is or was such a run."""
        return run_id in self._runs or run_id in self._ended

    def outcome(self, run_id: str) -> RunOutcome:
        """How a run ended; raises `UsageError` for one that nobody knows."""
        outcome = self._ended.get(run_id)
        if outcome is None:
            raise UsageError(f"there is no run {run_id}", fix="use the run id that `agent` has returned")
        return outcome

    def place(self, run: Run) -> None:
        """Find a place for a message: a run of its own, or one that is under way or waits."""
        key = run.session.key
        if run.command is not None and run.command.name == "stop":
            self._stop(key)
        inbox = self._inboxes.get(key)
        if inbox is None:
            inbox = self._inboxes[key] = Inbox(self._services.configuration.queue, self._drop)
        run.host = inbox.place(run, self._mode(run), self.abort)
        self._runs[run.id] = run
        if run.host is None:
            self._start(run)

    def _mode(self, run: Run) -> QueueMode | None:
        """Messages of a channel follow the rules of its queue; others, and commands, wait for their turn."""
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
        turn = self._turns[run.id] = asyncio.create_task(self._take_turn(run, inbox))
        turn.add_done_callback(lambda _: self._make_sure(run, inbox))

    def _make_sure(self, run: Run, inbox: Inbox) -> None:
        # A task that is cancelled before its first step never runs, not even what stands behind `finally`.
        if not run.done.done():
            self._settle(run, inbox, ended_early(run, run.abort.reason if run.abort is not None else "aborted"))

    async def _take_turn(self, run: Run, inbox: Inbox) -> None:
        lanes = self._services.lanes
        tickets = []
        outcome: RunOutcome | None = None
        try:
            tickets.append(await lanes.enter(f"session:{run.session.key}", run.id))
            await inbox.quiet(run)
            tickets.append(await lanes.enter(_LANES.get(run.params.trigger, "main"), run.id, self._limit(run)))
            inbox.begin(run)
            run.session = self._services.sessions.current(run.session, pinned=run.params.session_id is not None)
            supervision = self._supervised[run.id] = Supervision(run, self._services)
            outcome = await supervision.execute(do_work(run, self._services))
        except asyncio.CancelledError:
            outcome = ended_early(run, run.abort.reason if run.abort is not None else "aborted")
        except Exception as error:
            outcome = ended_early(run, words_of(error))
        finally:
            self._settle(run, inbox, outcome or ended_early(run, "aborted"))
            for ticket in tickets:
                ticket.leave()

    def _limit(self, run: Run) -> int:
        is_child = run.params.trigger == "subagent"
        return SUBAGENTS_AT_A_TIME if is_child else self._services.configuration.defaults.max_concurrent

    def abort(self, run: Run, abort: Abort) -> bool:
        """End a run, wherever it is; False if there is nothing to end."""
        if run.done.done():
            return False
        supervision, turn = self._supervised.get(run.id), self._turns.get(run.id)
        if supervision is not None:
            return supervision.abort(abort)
        if turn is not None:
            run.abort = run.abort or abort
            turn.cancel()
        elif run.host is not None and run.host.gives_back(run):
            run.abort = abort
            self._drop(run, abort.reason)
        else:
            return False  # another run has taken it up, and the model has heard of it
        return True

    def _drop(self, run: Run, reason: str) -> None:
        """End a message that gets no answer."""
        turn = self._turns.get(run.id)
        if turn is not None:
            run.abort = run.abort or Abort("cancelled", reason)
            turn.cancel()
        else:
            self._finish(run, ended_early(run, reason))

    def _settle(self, run: Run, inbox: Inbox, outcome: RunOutcome) -> None:
        for left in inbox.end(run):
            left.host = None
            self._start(left)
        self._finish(run, outcome)
        for joined in run.joined:
            own = {"run_id": joined.id, "joined": run.id, "payloads": []}
            self._finish(joined, msgspec.structs.replace(outcome, **own))
        if inbox.is_idle:
            self._inboxes.pop(run.session.key, None)
        if outcome.aborted:
            # Last, and whether it can be remembered or not: others wait for everything else.
            with contextlib.suppress(OSError):
                self._services.sessions.note(run.session, aborted_last_run=True)

    def _finish(self, run: Run, outcome: RunOutcome) -> None:
        tell_end(run, self._services, outcome)
        self._services.streams.forget(run.id)
        for table in (self._runs, self._turns, self._supervised):
            table.pop(run.id, None)
        self._ended[run.id] = outcome
        if len(self._ended) > KEPT_OUTCOMES:
            self._ended.popitem(last=False)
        if not run.done.done():
            run.done.set_result(outcome)
