"""Limits on silence and time: how long a model may say nothing, and how long a run may take."""

from __future__ import annotations

import asyncio
from types import TracebackType

from critiqor.agentloop.configuration import LoopConfiguration
from critiqor.agentloop.runs import AgentParams
from critiqor.agentloop.settings import Provider

IDLE_CAP_SECONDS = 120.0
"""The silence that a model is allowed where its provider says nothing else."""
CLEANUP_SECONDS = 5.0
"""What an aborted run may take to come to its end, before it is left behind."""


def run_limit(configuration: LoopConfiguration, params: AgentParams) -> float | None:
    """Seconds that a run may take; None for no limit."""
    if params.timeout_seconds is not None:
        return params.timeout_seconds or None
    return configuration.run_timeout_seconds


def idle_limit(configuration: LoopConfiguration, params: AgentParams, provider: Provider) -> float | None:
    """Seconds without a sign of the model after which a request is given up; None for no limit.

    A provider's own limit counts, in the bounds of the run's. Otherwise it is what the agent's limit says, at most two
    minutes. A cron run that says nothing about time has a deadline of its own, and no such limit.
    """
    of_run = params.timeout_seconds or None
    of_agent = configuration.defaults.timeout_seconds or None
    bounds = [limit for limit in (of_run, of_agent) if limit is not None]
    if provider.timeout_seconds is not None:
        return min([provider.timeout_seconds, *bounds])
    if params.trigger == "cron" and not bounds:
        return None
    return min([IDLE_CAP_SECONDS, *bounds])


class Silence:
    """Ends what runs inside it with `TimeoutError` when nothing was heard for too long."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._timeout = asyncio.timeout(None)
        self._armed_at = float("-inf")

    async def __aenter__(self) -> Silence:
        await self._timeout.__aenter__()
        self.heard()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._timeout.__aexit__(kind, error, trace)

    def heard(self) -> None:
        """Something came."""
        if self._seconds is None:
            return
        now = asyncio.get_running_loop().time()
        # Pieces come by the thousand. The timer is set anew now and then, and for that much longer than was asked for.
        slack = self._seconds / 64
        if now - self._armed_at >= slack:
            self._armed_at = now
            self._timeout.reschedule(now + self._seconds + slack)
