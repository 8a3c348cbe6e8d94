"""Delays of an asyncio event loop, measured by how late a timer of ten milliseconds fires."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

TIMER_SECONDS = 0.01
SAMPLE_SECONDS = 1.0
STALL_MS = 100.0
"""A delay that is reported at once, while the span that blocked the loop is still known."""
NOTABLE_MS = 20.0
"""A delay that is reported even if nothing happened in that second."""

Report = Callable[[dict[str, float], str | None], None]
"""Takes quantiles in milliseconds and the name of the span that was active."""


class LoopDelays:
    """Measures the delays of the running loop while there is work, and reports a sample every second."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._expected = 0.0
        self._sampled_at = 0.0
        self._delays: list[float] = []
        self._busy = False
        self._active: str | None = None
        self._last: tuple[str, float, float] | None = None
        """The span that ended last: its name, its end, and its duration in milliseconds."""

    def note_activity(self, active: str | None) -> None:
        """Note activity in the current second; `active` is the name of the innermost open span."""
        self._busy = True
        self._active = active
        if self._timer is None or self._loop is None or self._loop.is_closed():
            try:
                self._loop = asyncio.get_running_loop()
            except RuntimeError:
                return
            self._sampled_at = time.monotonic()
            self._schedule()

    def span_ended(self, name: str, duration_ms: float) -> None:
        """Note the end of a span."""
        self._last = (name, time.monotonic(), duration_ms)

    def stop(self) -> None:
        """Report the last sample and stop measuring."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._sample(self._active)

    def _schedule(self) -> None:
        if self._loop is not None:
            self._expected = time.monotonic() + TIMER_SECONDS
            self._timer = self._loop.call_later(TIMER_SECONDS, self._fired)

    def _fired(self) -> None:
        now = time.monotonic()
        delay = max(0.0, (now - self._expected) * 1000)
        self._delays.append(delay)
        if delay >= STALL_MS:
            self._sample(self._blocking_span(now, delay))
        elif now - self._sampled_at >= SAMPLE_SECONDS:
            if not self._busy and max(self._delays) < NOTABLE_MS:
                self._delays.clear()
                if self._active is None:
                    self._timer = None  # idle: measuring restarts with the next activity
                    return
            self._sample(self._active)
        self._schedule()

    def _blocking_span(self, now: float, delay: float) -> str | None:
        """Return the span that blocked the loop: one that has just ended and was long enough, or the innermost one."""
        if self._last is not None:
            name, ended_at, duration_ms = self._last
            if (now - ended_at) * 1000 <= delay and duration_ms >= delay / 2:
                return name
        return self._active

    def _sample(self, active: str | None) -> None:
        delays = sorted(self._delays)
        self._delays.clear()
        self._sampled_at = time.monotonic()
        self._busy = False
        if delays:
            quantiles = {f"p{share}Ms": round(delays[(len(delays) - 1) * share // 100], 3) for share in (50, 95, 99)}
            self._report({**quantiles, "maxMs": round(delays[-1], 3)}, active)
