"""Waste reported by findings: wasted tool calls and model calls, with their tokens, cost and time."""

from __future__ import annotations

from collections.abc import Iterable
from math import fsum, isnan

from critiqor.diagnosis.collections.orders import Orders
from critiqor.diagnosis.drafts.call_costs import UNKNOWN, CallCosts, costs_of
from critiqor.spans.calls import ModelCall, ToolCall

WastedCalls = list[ToolCall] | list[ModelCall] | CallCosts


class Waste:
    """Wasted tool calls, the model calls that requested them, and other wasted model calls. Each counts once.

    The series of wasted calls usually only grow, so `update` adds each call once, however often it is called. If a
    series is gone or has become shorter, all calls are counted again.
    """

    def __init__(self) -> None:
        self._series: dict[int, tuple[WastedCalls, int]] = {}
        """The series by identity, and the number of calls of each that were counted."""
        self._others: list[Waste] = []
        """Waste of agent runs that are over, which was added up before."""
        self._clear()

    def _clear(self) -> None:
        self._series.clear()
        self.tool_calls = 0
        """Number of tool calls."""
        self._tool_calls = Orders()
        self._model_calls = Orders()
        self._without_usage: list[ModelCall] = []
        """Model calls whose usage may arrive with the end of their agent run."""
        self._usage = 0
        """Number of model calls with known tokens."""
        self._tokens = 0
        self._prices = _ExactSum()
        self._is_estimated = False
        self._duration_ms = 0
        self._is_empty = True

    def __bool__(self) -> bool:
        return not self._is_empty or any(self._others)

    def update(self, parts: Iterable[WastedCalls | Waste]) -> None:
        """Count the calls of these series, and no others; waste is counted as it is."""
        self._others = []
        current: dict[int, WastedCalls] = {}
        for part in parts:
            if isinstance(part, Waste):
                self._others.append(part)
            elif part:
                current[id(part)] = part
        if any(key not in current or len(current[key]) < length for key, (_, length) in self._series.items()):
            self._clear()
        for key, calls in current.items():
            length = self._series[key][1] if key in self._series else 0
            if length < len(calls):
                self._series[key] = (calls, len(calls))
                self._count(calls, length)

    def add_all(self, *parts: WastedCalls | Waste) -> None:
        """Count the calls of series that are complete and need not be kept. Waste was counted before."""
        for part in parts:
            if part and not isinstance(part, Waste):
                self._count(part, 0)

    def add_sums(self, other: Waste) -> None:
        """Add the sums of waste whose calls need not be kept, and of which none is counted here."""
        self._is_empty = self._is_empty and not other
        self.tool_calls += other.tool_calls
        if other.tokens is not None:
            self._usage += 1
            self._tokens += other.tokens
        if other.cost_usd is not None:
            self._prices.add(other.cost_usd)
        self._is_estimated = self._is_estimated or other.is_estimated
        self._duration_ms += other.duration_ms or 0

    def _count(self, calls: WastedCalls, start: int) -> None:
        self._is_empty = False
        costs = calls if isinstance(calls, CallCosts) else costs_of(calls)
        self._is_estimated = self._is_estimated or costs.is_estimated
        for index, (order, duration, request, request_duration, tokens, cost) in enumerate(costs.rows(start), start):
            if order:
                if not self._tool_calls.add(order):
                    continue
                self.tool_calls += 1
                self._duration_ms += duration
            if request and self._model_calls.add(request):
                self._duration_ms += request_duration
                late = costs.late.get(index) if costs.late else None
                if late is not None:
                    self._add_late(late)
                else:
                    self._add_usage(tokens, cost)

    def _add_usage(self, tokens: int, cost: float) -> None:
        if tokens != UNKNOWN:
            self._usage += 1
            self._tokens += tokens
        if not isnan(cost):
            self._prices.add(cost)

    def _add_late(self, call: ModelCall) -> None:
        if call.tokens is None and call.cost_usd is None:
            self._without_usage.append(call)
            return
        if call.tokens is not None:
            self._usage += 1
            self._tokens += call.tokens
        if call.cost_usd is not None:
            self._prices.add(call.cost_usd)
            self._is_estimated = self._is_estimated or call.cost_is_estimated

    def read_late_usage(self) -> None:
        """Count the usage that agent runs have reported with their end."""
        waiting, self._without_usage = self._without_usage, []
        for call in waiting:
            self._add_late(call)

    @property
    def tokens(self) -> int | None:
        """The tokens of the model calls; None if no usage is known."""
        known = [other.tokens for other in self._others]
        known.append(self._tokens if self._usage else None)
        return _sum(known)

    @property
    def cost_usd(self) -> float | None:
        """The cost of the model calls in US dollars; None if no cost is known."""
        parts = list(self._price_parts())
        return fsum(parts) if parts else None

    @property
    def is_estimated(self) -> bool:
        """Whether a part of the cost was computed from list prices."""
        return self._is_estimated or any(other.is_estimated for other in self._others)

    def _price_parts(self) -> Iterable[float]:
        if self._prices.is_known:
            yield from self._prices.parts
        for other in self._others:
            yield from other._price_parts()

    @property
    def duration_ms(self) -> int | None:
        """The total duration of all calls in milliseconds; None if there are no calls."""
        known = [other.duration_ms for other in self._others]
        known.append(None if self._is_empty else self._duration_ms)
        return _sum(known)


def _sum(values: list[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


class _ExactSum:
    """A sum of floats without rounding errors, like `math.fsum`, to which numbers can be added later."""

    __slots__ = ("is_known", "parts")

    def __init__(self) -> None:
        self.parts: list[float] = []
        """Non-overlapping numbers with the same sum, smallest first."""
        self.is_known = False
        """Whether a number was added."""

    def add(self, value: float) -> None:
        self.is_known = True
        kept = []
        for part in self.parts:
            large, small = (value, part) if abs(value) >= abs(part) else (part, value)
            value = large + small
            if rest := small - (value - large):
                kept.append(rest)
        self.parts = [*kept, value]
