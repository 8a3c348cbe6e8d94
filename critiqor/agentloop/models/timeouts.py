"""Time limits of model calls: how long a model may be silent, and how long its response may take."""

from __future__ import annotations

import asyncio
from types import TracebackType

from critiqor.agentloop.configuration import LoopConfiguration
from critiqor.agentloop.runs import AgentParams
from critiqor.agentloop.settings import Provider

IDLE_CAP_SECONDS = 120.0
"""Default limit in seconds for a model that sends no data."""


def idle_timeout(configuration: LoopConfiguration, params: AgentParams, provider: Provider) -> float | None:
    """Return after how many seconds without data a request times out; None for no limit.

    A limit of the provider applies within the limits of the run and the agent. Without it, the limit is that of the
    run or the agent, at most two minutes. A cron run without any limit has its own deadline and no idle limit.
    """
    of_run = params.timeout_seconds or None
    of_agent = configuration.defaults.timeout_seconds or None
    bounds = [limit for limit in (of_run, of_agent) if limit is not None]
    if provider.timeout_seconds is not None:
        return min([provider.timeout_seconds, *bounds])
    if params.trigger == "cron" and not bounds:
        return None
    return min([IDLE_CAP_SECONDS, *bounds])


class IdleTimeout:
    """Context manager that raises `TimeoutError` when no data has arrived for too long."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._timeout = asyncio.timeout(None)
        self._armed_at = float("-inf")

    async def __aenter__(self) -> IdleTimeout:
        await self._timeout.__aenter__()
        self.reset()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._timeout.__aexit__(kind, error, trace)

    def reset(self) -> None:
        """Restart the timeout, because data has arrived."""
        if self._seconds is None:
            return
        now = asyncio.get_running_loop().time()
        # Thousands of deltas arrive, so the timer is rescheduled only once per slack interval, which is added to the
        # limit.
        slack = self._seconds / 64
        if now - self._armed_at >= slack:
            self._armed_at = now
            self._timeout.reschedule(now + self._seconds + slack)
