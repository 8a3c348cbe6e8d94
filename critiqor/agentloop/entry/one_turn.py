"""One turn and its end: what `agent --local` does."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from critiqor.agentloop.entry.host import opened_runtime
from critiqor.agentloop.runs import AgentParams, RunOutcome
from critiqor.errors import ExitCode


async def one_turn(
    environment: Mapping[str, str], params: AgentParams, config: Path | None = None, arguments: Sequence[str] = ()
) -> RunOutcome:
    """Run one message to its end, with the children that it starts. An interrupt ends it, and its end is recorded."""
    async with opened_runtime(environment, config=config, arguments=arguments) as runtime:
        accepted = await runtime.agent(params)
        interrupted = asyncio.Event()

        def interrupt() -> None:
            # Where the answer is there already, what it has started ends when the runtime is closed.
            if not runtime.cancel(accepted.run_id, "interrupted", "signal"):
                interrupted.set()

        with _at_signals(interrupt):
            outcome = await runtime.outcome(accepted.run_id)
            if not outcome.aborted:
                await _either(runtime.drain(), interrupted.wait())
        return outcome


def exit_code_of(outcome: RunOutcome) -> int:
    """What a process that ran this returns to its shell."""
    if outcome.status == "ok":
        return int(ExitCode.OK)
    return int(ExitCode.INTERRUPTED if outcome.abort_kind == "signal" else ExitCode.ERROR)


def report_of(outcome: RunOutcome) -> dict[str, Any]:
    """The outcome in the shape in which `openclaw agent --json` answers."""
    usage = outcome.usage
    return {
        "payloads": [
            {"text": payload.text, "mediaUrl": None, "isError": payload.is_error} for payload in outcome.payloads
        ],
        "meta": {
            "runId": outcome.run_id,
            "durationMs": outcome.ended_at - (outcome.started_at or outcome.ended_at),
            "aborted": outcome.aborted,
            "stopReason": outcome.stop_reason,
            "error": outcome.error,
            "agentMeta": {
                "sessionId": outcome.session_id,
                "sessionKey": outcome.session_key,
                "provider": outcome.provider,
                "model": outcome.model,
                "usage": {
                    "input": usage.input,
                    "output": usage.output,
                    "cacheRead": usage.cache_read,
                    "cacheWrite": usage.cache_write,
                    "total": usage.total_tokens,
                    "cost": usage.cost.total,
                },
            },
            "transport": "embedded",
        },
    }


async def _either(*works: Coroutine[Any, Any, object]) -> None:
    """Do things at once until one of them is done."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


@contextlib.contextmanager
def _at_signals(act: Callable[[], object]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM)
    for one in signals:
        loop.add_signal_handler(one, act)
    try:
        yield
    finally:
        for one in signals:
            loop.remove_signal_handler(one)
