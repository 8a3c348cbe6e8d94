"""The model calls of a recording in order: all of them, or of very many an evenly spaced selection."""

from __future__ import annotations

from critiqor.spans.calls import ModelCall

MAX_KEPT = 2048
"""Number of model calls that are kept at least, and at most twice as many."""


class RequestLog:
    """Keeps every model call; of more than `2 * MAX_KEPT`, every second one, then every fourth, and so on."""

    def __init__(self) -> None:
        self.total = 0
        """Number of model calls."""
        self._stride = 1
        self._calls: list[ModelCall] = []
        """Every `_stride`th model call, from the first one on."""

    def add(self, call: ModelCall) -> None:
        """Add the next model call."""
        if self.total % self._stride == 0:
            self._calls.append(call)
            if len(self._calls) > 2 * MAX_KEPT:
                del self._calls[1::2]
                self._stride *= 2
        self.total += 1

    def selection(self, count: int) -> list[ModelCall]:
        """Return an evenly spaced selection of model calls: all of them if there are at most `count`."""
        if self.total <= count:
            return self._calls
        wanted = -(-self.total // count)
        return self._calls[:: -(-wanted // self._stride)]
