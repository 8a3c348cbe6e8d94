"""Waste reported by findings: wasted tool calls and model calls, with their tokens, cost and time."""

from __future__ import annotations

from collections.abc import Iterable
from math import fsum

from critiqor.spans.calls import ModelCall, ToolCall

WastedCalls = list[ToolCall] | list[ModelCall]


class Waste:
    """Wasted tool calls, the model calls that requested them, and other wasted model calls. Each counts once.

    The lists of wasted calls usually only grow, so `update` adds each call once, however often it is called. If a list
    is gone or has become shorter, all calls are counted again.
    """

    def __init__(self) -> None:
        self._lists: dict[int, tuple[WastedCalls, int]] = {}
        """The lists by identity, and the number of calls of each list that were counted."""
        self._clear()

    def _clear(self) -> None:
        self._lists.clear()
        self.tool_calls: set[int] = set()
        """Order numbers of the tool calls."""
        self._model_calls: set[int] = set()
        self._without_usage: list[ModelCall] = []
        """Model calls whose usage may arrive with the end of their agent run."""
        self._usage = 0
        """Number of model calls with known tokens."""
        self._tokens = 0
        self._prices = _ExactSum()
        self._duration_ms = 0

    def update(self, lists: Iterable[WastedCalls]) -> None:
        """Count the calls of these lists, and no others."""
        current = {id(calls): calls for calls in lists if calls}
        if any(key not in current or len(current[key]) < length for key, (_, length) in self._lists.items()):
            self._clear()
        for key, calls in current.items():
            length = self._lists[key][1] if key in self._lists else 0
            if length < len(calls):
                self._lists[key] = (calls, len(calls))
                for call in calls[length:]:
                    if isinstance(call, ModelCall):
                        self._add_model_call(call)
                    elif call.order not in self.tool_calls:
                        self._add_tool_call(call)

    def _add_tool_call(self, call: ToolCall) -> None:
        self.tool_calls.add(call.order)
        self._duration_ms += call.duration_ms
        if call.model_call is not None:
            self._add_model_call(call.model_call)

    def _add_model_call(self, call: ModelCall) -> None:
        if call.order not in self._model_calls:
            self._model_calls.add(call.order)
            self._duration_ms += call.duration_ms
            self._add_usage(call)

    def _add_usage(self, call: ModelCall) -> None:
        if call.tokens is None and call.cost_usd is None:
            if not call.failed:
                self._without_usage.append(call)
            return
        if call.tokens is not None:
            self._usage += 1
            self._tokens += call.tokens
        if call.cost_usd is not None:
            self._prices.add(call.cost_usd)

    def read_late_usage(self) -> None:
        """Count the usage that agent runs have reported with their end."""
        waiting, self._without_usage = self._without_usage, []
        for call in waiting:
            self._add_usage(call)

    @property
    def tokens(self) -> int | None:
        """The tokens of the model calls; None if no usage is known."""
        return self._tokens if self._usage else None

    @property
    def cost_usd(self) -> float | None:
        """The cost of the model calls in US dollars; None if no cost is known."""
        return self._prices.total if self._prices.is_known else None

    @property
    def duration_ms(self) -> int | None:
        """The total duration of all calls in milliseconds; None if there are no calls."""
        return self._duration_ms if self._lists else None


class _ExactSum:
    """A sum of floats without rounding errors, like `math.fsum`, to which numbers can be added later."""

    __slots__ = ("_parts", "is_known")

    def __init__(self) -> None:
        self._parts: list[float] = []
        """Non-overlapping numbers with the same sum, smallest first."""
        self.is_known = False
        """Whether a number was added."""

    def add(self, value: float) -> None:
        self.is_known = True
        kept = []
        for part in self._parts:
            large, small = (value, part) if abs(value) >= abs(part) else (part, value)
            value = large + small
            if rest := small - (value - large):
                kept.append(rest)
        self._parts = [*kept, value]

    @property
    def total(self) -> float:
        """The sum of all added numbers."""
        return fsum(self._parts)
