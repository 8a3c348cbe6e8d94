"""How late an asyncio event loop is: a timer that should come every ten milliseconds, and how much later it comes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

GRAIN_SECONDS = 0.01
SAMPLE_SECONDS = 1.0
STALL_MS = 100.0
"""A delay that is told at once, so that the span which held the loop is still known."""
NOTABLE_MS = 20.0
"""A delay that is told even if nothing happened in that second."""

Told = Callable[[dict[str, float], str | None], None]


class LoopDelays:
    """Measures the delays of the running loop while there is work, and tells a sample of them every second."""

    def __init__(self, tell: Told) -> None:
        self._tell = tell
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._expected = 0.0
        self._sampled_at = 0.0
        self._delays: list[float] = []
        self._busy = False
        self._active: str | None = None
        self._last: tuple[str, float, float] | None = None
        """The span that ended last: its name, when, and how long it took in milliseconds."""

    def worked(self, active: str | None) -> None:
        """Something happened, inside a span or not: the delays of this second are worth telling."""
        self._busy = True
        self._active = active
        if self._timer is None or self._loop is None or self._loop.is_closed():
            try:
                self._loop = asyncio.get_running_loop()
            except RuntimeError:
                return
            self._sampled_at = time.monotonic()
            self._again()

    def ended(self, name: str, duration_ms: float) -> None:
        """A span has ended."""
        self._last = (name, time.monotonic(), duration_ms)

    def stop(self) -> None:
        """Tell what was measured, and measure no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._sample(self._active)

    def _again(self) -> None:
        if self._loop is not None:
            self._expected = time.monotonic() + GRAIN_SECONDS
            self._timer = self._loop.call_later(GRAIN_SECONDS, self._turned)

    def _turned(self) -> None:
        now = time.monotonic()
        delay = max(0.0, (now - self._expected) * 1000)
        self._delays.append(delay)
        if delay >= STALL_MS:
            self._sample(self._holder(now, delay))
        elif now - self._sampled_at >= SAMPLE_SECONDS:
            if not self._busy and max(self._delays) < NOTABLE_MS:
                self._delays.clear()
                if self._active is None:
                    self._timer = None  # nobody works: measured again when somebody does
                    return
            self._sample(self._active)
        self._again()

    def _holder(self, now: float, delay: float) -> str | None:
        """The span that held the loop: one that has just ended and was long enough, or else the innermost one."""
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
            self._tell({**quantiles, "maxMs": round(delays[-1], 3)}, active)
