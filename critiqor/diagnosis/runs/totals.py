"""Sums over all agent runs of a recording, for the analyses: added up when an agent run is over, or a part of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from critiqor.diagnosis.collections.recent import Recent
from critiqor.diagnosis.detectors.context_pollution import context_saturation
from critiqor.diagnosis.signals.compactions import is_compaction
from critiqor.model import MemoryAnalysis, ToolUsage
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import MemoryLookup, ModelCall, Moment, RunSpan, SecretMark, ToolCall

MAX_SLOWEST_CALLS = 10
"""Maximum number of calls that the latency analysis lists."""
_SLOW_CALLS_KEPT = 64


class TimedCall(NamedTuple):
    """A call, in the order of the slowest calls."""

    key: tuple[int, int, bool, int]
    """Sort key: the slowest first, then by agent run; tool calls before model calls."""
    event_id: str
    name: str


class LargestResult(NamedTuple):
    """The largest result of a tool call."""

    key: tuple[int, int, int]
    """Sort key: the largest first, then the first one."""
    event_id: str


class Totals:
    """What is known of all agent runs that were added."""

    def __init__(self) -> None:
        self.tools: dict[str, ToolUsage] = {}
        self.memory = MemoryAnalysis()
        self.carried_until = 0
        """Position of the last event from before the recording, which does not count."""
        self.first_time = ""
        self.last_time = ""
        self.model_ms = 0
        self.tool_ms = 0
        self.first_byte_ms = 0
        """The longest time to a first byte."""
        self._slowest: list[TimedCall] = []
        self._least = 1
        """Duration of a call that may be one of the slowest."""
        self.largest: LargestResult | None = None
        self.compactions = 0
        self.peak: float | None = None
        """The largest share of a context window that a request filled."""
        self.over_budget = 0
        self.fullest: ModelCall | None = None
        """The model call that filled its budget most."""
        self._fullest_key: tuple[float, int, int] = (-1.0, 0, 0)

    def add_time(self, run: AgentRun) -> None:
        """Add when an agent run began and when its last event was."""
        if run.first_time and (not self.first_time or run.first_time < self.first_time):
            self.first_time = run.first_time
        if run.last_time > self.last_time:
            self.last_time = run.last_time

    def add_slow_call(self, duration: int, run: AgentRun, call: ToolCall | ModelCall) -> None:
        """Add a call, which may be one of the slowest."""
        if duration < self._least:
            return
        if isinstance(call, ToolCall):
            timed = TimedCall((-duration, run.number, False, call.order), call.evidence, call.tool)
        else:
            timed = TimedCall((-duration, run.number, True, call.order), call.event_id, "model call")
        self._slowest.append(timed)
        if len(self._slowest) > _SLOW_CALLS_KEPT:
            self._slowest = self.slowest
            self._least = -self._slowest[-1].key[0]

    @property
    def slowest(self) -> list[TimedCall]:
        """The slowest calls."""
        return sorted(self._slowest)[:MAX_SLOWEST_CALLS]

    def add_model_call(self, run: AgentRun, call: ModelCall) -> None:
        """Add a model call whose usage is as complete as it will be."""
        self.model_ms += call.duration_ms
        self.first_byte_ms = max(self.first_byte_ms, call.first_byte_ms or 0)
        self.add_slow_call(call.duration_ms, run, call)
        share = context_saturation(call)
        if share is not None:
            self.over_budget += share > 1
            if self.peak is None or share > self.peak:
                self.peak = share
        key = (share or 0, call.request_bytes or 0, -call.order)
        if key > self._fullest_key or self.fullest is None:
            self.fullest, self._fullest_key = call, key

    def add_lookup(self, lookup: MemoryLookup, *, is_repeated: bool) -> None:
        """Add a memory lookup."""
        memory = self.memory
        memory.lookups += 1
        memory.found += lookup.outcome == "found"
        memory.empty += lookup.outcome == "empty"
        memory.failed += lookup.outcome == "error"
        memory.repeated_queries += is_repeated


class RunTotals:
    """Adds one agent run to the totals, at once or part by part."""

    def __init__(self, run: AgentRun, totals: Totals) -> None:
        self._run = run
        self._totals = totals
        self._queries: Recent[str, bool] = Recent()
        self._seen: Recent[bytes, bool] = Recent()
        """Tool calls, to count repeated ones."""
        self._spent: dict[str, float] = {}
        """Tokens of the model calls that requested calls of each tool."""
        self._requested: list[str] = []
        """Tools of the calls that the last model call requested."""
        self._request: ModelCall | None = None

    def add(self, spans: Iterable[RunSpan]) -> None:
        """Add spans, each once, in order."""
        totals, run = self._totals, self._run
        for span in spans:
            kind = type(span)
            if kind is SecretMark or span.order <= totals.carried_until:  # type: ignore[union-attr]
                continue
            if kind is ToolCall:
                if not span.wraps:  # type: ignore[union-attr]
                    self._add_action(span)  # type: ignore[arg-type]
            elif kind is ModelCall:
                totals.add_model_call(run, span)  # type: ignore[arg-type]
            elif isinstance(span, MemoryLookup):
                totals.add_lookup(span, is_repeated=span.what in self._queries)
                if span.what:
                    self._queries[span.what] = True
            elif isinstance(span, Moment):
                totals.compactions += is_compaction(span)

    def _add_action(self, call: ToolCall) -> None:
        totals, run = self._totals, self._run
        run.action_count += 1
        tool = totals.tools.get(call.tool)
        if tool is None:
            tool = totals.tools[call.tool] = ToolUsage(tool=call.tool)
        tool.calls += 1
        tool.failed += call.failed
        if call.same_call in self._seen:
            tool.repeated += 1
        self._seen[call.same_call] = True
        duration = call.duration_ms
        if duration:
            tool.duration_ms += duration
            totals.tool_ms += duration
            totals.add_slow_call(duration, run, call)
        largest = (-call.output_size, run.number, call.order)
        if totals.largest is None or largest < totals.largest.key:
            totals.largest = LargestResult(largest, call.evidence)
        if call.model_call is not self._request:
            self._divide_cost()
            self._request = call.model_call
        if call.model_call is not None:
            self._requested.append(call.tool)

    def _divide_cost(self) -> None:
        """Divide the cost of a model call among the calls that it requested."""
        request = self._request
        if request is not None:
            share = len(self._requested)
            for name in self._requested:
                if request.tokens is not None:
                    self._spent[name] = self._spent.get(name, 0) + request.tokens / share
                if request.cost_usd is not None:
                    tool = self._totals.tools[name]
                    tool.cost_usd = (tool.cost_usd or 0.0) + request.cost_usd / share
                    tool.cost_is_estimated = tool.cost_is_estimated or request.cost_is_estimated
        self._requested.clear()

    def finish(self) -> None:
        """Add what is known once the agent run is over."""
        self._divide_cost()
        self._request = None
        for name, tokens in self._spent.items():
            tool = self._totals.tools[name]
            tool.tokens = (tool.tokens or 0) + round(tokens)
        self._spent.clear()
        self._totals.add_time(self._run)
