"""Executing many tasks on workers that can die, with a bounded number of them submitted at a time.

When a process of a pool dies, all tasks in flight fail, and nothing says which of them killed it. They are repeated one
by one: a task during which the pool breaks again is the one, and only it is given up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, wait
from typing import Generic, NamedTuple, TypeVar

from critiqor.fleet.compute.executor import CHECK_SECONDS, Workers

SUBMITTED_PER_WORKER = 3
"""Tasks that are submitted for each worker, so that none waits for the next one."""

Task = TypeVar("Task")
Result = TypeVar("Result")


class WorkerDiedError(Exception):
    """The process that executed a task died, also when the task was repeated."""


class Done(NamedTuple, Generic[Task, Result]):
    """A task with its result, or with the exception that it raised."""

    task: Task
    result: Result | None = None
    error: BaseException | None = None

    @property
    def was_lost(self) -> bool:
        """Whether the executor broke before this task of the batch was finished."""
        return isinstance(self.error, BrokenExecutor | CancelledError)


class Batch(Generic[Task, Result]):
    """Executes a function on each of many tasks."""

    def __init__(self, workers: Workers, function: Callable[[Task], Result], notice: Callable[[str], None]) -> None:
        """`notice` is called with a sentence when workers died or none is there."""
        self._workers = workers
        self._function = function
        self._notice = notice
        self._submitted: dict[Future[Result], Task] = {}
        self._suspects: deque[Task] = deque()
        """Tasks that were in flight when a pool broke, to be repeated one by one."""
        self._is_repeating = False
        """Whether the only task in flight is one of them."""
        self._noticed: str | None = None

    def results(self, tasks: Iterable[Task]) -> Iterator[Done[Task, Result]]:
        """Yield each task once with its result, in the order in which they end."""
        rest = iter(tasks)
        while self._submit(rest):
            finished, _ = wait(self._submitted, CHECK_SECONDS, FIRST_COMPLETED)
            if not finished:
                self._report_missing()
            outcomes = [_outcome(self._submitted.pop(future), future) for future in finished]
            if any(done.was_lost for done in outcomes):
                outcomes = self._repeat(outcomes)
            yield from outcomes

    def _submit(self, rest: Iterator[Task]) -> bool:
        """Submit as many tasks as there is room for. Return whether any is in flight."""
        if self._suspects and not self._submitted:
            self._is_repeating = True
            self._start(self._suspects.popleft())
        elif not self._submitted:
            self._is_repeating = False
        room = 1 if self._is_repeating else SUBMITTED_PER_WORKER * self._workers.capacity
        while len(self._submitted) < room and (task := next(rest, None)) is not None:
            self._start(task)
        return bool(self._submitted)

    def _start(self, task: Task) -> None:
        try:
            future = self._workers.executor.submit(self._function, task)
        except BrokenExecutor as error:  # a process died since the last task was submitted
            future = Future()
            future.set_exception(error)
        self._submitted[future] = task

    def _repeat(self, outcomes: list[Done[Task, Result]]) -> list[Done[Task, Result]]:
        """Start the workers again after they broke. Return what is known of the tasks that were in flight."""
        wait(self._submitted, CHECK_SECONDS)
        outcomes += [_outcome(task, future) for future, task in self._submitted.items()]
        self._submitted.clear()
        self._workers.restart()
        lost = [done.task for done in outcomes if done.was_lost]
        known = [done for done in outcomes if not done.was_lost]
        if self._is_repeating:
            return [*known, *(Done(task, error=WorkerDiedError("the process that ran it died twice")) for task in lost)]
        self._notice("a worker process died; the tasks in flight are repeated one by one")
        self._suspects.extend(lost)
        return known

    def _report_missing(self) -> None:
        missing = self._workers.missing()
        if missing is not None and missing != self._noticed:
            self._notice(missing)
        self._noticed = missing


def _outcome(task: Task, future: Future[Result]) -> Done[Task, Result]:
    """Return the outcome of a task; one that was not finished when its executor broke was lost."""
    try:
        return Done(task, future.result(timeout=0))
    except TimeoutError as error:
        return Done(task, error=error if future.done() else CancelledError())
    except (Exception, CancelledError) as error:
        return Done(task, error=error)
