"""One turn and its end: what `agent --local` does."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from critiqor.agentloop.agent import AgentRuntime
from critiqor.agentloop.host import opened_runtime
from critiqor.agentloop.runs import AgentParams, RunOutcome
from critiqor.errors import ExitCode


async def one_turn(
    environment: Mapping[str, str], params: AgentParams, config: Path | None = None, arguments: Sequence[str] = ()
) -> RunOutcome:
    """Run one message to its end, with the children that it starts. An interrupt ends it, and its end is recorded."""
    async with opened_runtime(environment, config=config, arguments=arguments) as runtime:
        accepted = await runtime.agent(params)
        with _ended_by_signals(runtime, accepted.run_id):
            outcome = await runtime.outcome(accepted.run_id)
            if not outcome.aborted:
                await runtime.drain()
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


@contextlib.contextmanager
def _ended_by_signals(runtime: AgentRuntime, run_id: str) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM)
    for one in signals:
        loop.add_signal_handler(one, runtime.cancel, run_id, "interrupted", "signal")
    try:
        yield
    finally:
        for one in signals:
            loop.remove_signal_handler(one)
