"""A single run in this process, as with `agent --local`, and its exit code."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from critiqor.agentloop.entry.runtime import open_runtime
from critiqor.agentloop.event_streams import Listener
from critiqor.agentloop.runs import AgentParams, RunOutcome
from critiqor.errors import ExitCode


async def run_once(
    environment: Mapping[str, str],
    params: AgentParams,
    config: Path | None = None,
    arguments: Sequence[str] = (),
    listener: Listener | None = None,
) -> RunOutcome:
    """Run one message and the subagents that it starts until all have ended. SIGINT and SIGTERM abort cleanly.

    `listener` gets the events of all of them.
    """
    async with open_runtime(environment, config=config, arguments=arguments) as runtime:
        if listener is not None:
            runtime.streams.listen(listener)
        accepted = await runtime.agent(params)
        interrupted = asyncio.Event()

        def interrupt() -> None:
            # The run has ended but subagents may still run: they are aborted when the runtime closes.
            if not runtime.cancel(accepted.run_id, "interrupted", "signal"):
                interrupted.set()

        with _handle_signals(interrupt):
            outcome = await runtime.outcome(accepted.run_id)
            if not outcome.aborted:
                await _wait_for_first(runtime.drain(), interrupted.wait())
        return outcome


def texts_to_print(outcome: RunOutcome) -> list[str]:
    """Return the replies of a run that no channel has delivered."""
    is_delivered = outcome.delivery is not None and outcome.delivery.error is None
    return [] if is_delivered else [payload.text for payload in outcome.payloads]


def error_to_print(outcome: RunOutcome) -> str | None:
    """Return why a run failed or its reply was not delivered; None if all went well."""
    if outcome.error is not None or outcome.delivery is None or outcome.delivery.error is None:
        return outcome.error
    return f"the reply was not delivered: {outcome.delivery.error}"


def exit_code(outcome: RunOutcome) -> int:
    """Return the exit code of a process that executed this run."""
    if error_to_print(outcome) is None:
        return int(ExitCode.OK)
    return int(ExitCode.INTERRUPTED if outcome.abort_kind == "signal" else ExitCode.ERROR)


async def _wait_for_first(*coroutines: Coroutine[Any, Any, object]) -> None:
    """Run coroutines concurrently until one of them ends, and cancel the others."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


@contextlib.contextmanager
def _handle_signals(handler: Callable[[], object]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM)
    for number in signals:
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number in signals:
            loop.remove_signal_handler(number)
