"""The memory, latency and context analyses of a diagnosis, computed from the agent runs of a recording."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import nlargest

from critiqor.diagnosis.detectors.context_pollution import context_saturation
from critiqor.model import ContextAnalysis, Event, LatencyAnalysis, MemoryAnalysis, RequestSize, SlowCall, ms_from_iso
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import ModelCall

MAX_SLOWEST_CALLS = 10
"""Maximum number of calls that the latency analysis lists."""
MAX_REQUESTS = 400
"""Maximum number of requests that the context analysis lists, plus the fullest one."""


def memory_analysis(runs: list[AgentRun]) -> MemoryAnalysis:
    """Count the memory lookups by outcome, and the repeated queries."""
    analysis = MemoryAnalysis()
    for run in runs:
        queries: set[str] = set()
        for lookup in run.lookups:
            analysis.lookups += 1
            analysis.found += lookup.outcome == "found"
            analysis.empty += lookup.outcome == "empty"
            analysis.failed += lookup.outcome == "error"
            analysis.repeated_queries += lookup.what in queries
            if lookup.what:
                queries.add(lookup.what)
    return analysis


def latency_analysis(runs: list[AgentRun], launch: Event | None, end: Event | None) -> LatencyAnalysis:
    """Add up the time spent with models and in tools, and list the slowest calls.

    `launch` and `end` are the start and the end of the process, if it was supervised.
    """
    first = min((run.first_time for run in runs if run.first_time), default="")
    last = max((run.last_time for run in runs), default="")
    began = ms_from_iso(first if launch is None else launch.timestamp)
    ended = ms_from_iso(last if end is None else end.timestamp)
    calls = [call for run in runs for call in run.model_calls]
    slowest = nlargest(MAX_SLOWEST_CALLS, _durations(runs), key=lambda timed: timed[0])
    return LatencyAnalysis(
        wall_ms=max(0, ended - began) if began is not None and ended is not None else None,
        model_ms=sum(call.duration_ms for call in calls),
        tool_ms=sum(call.duration_ms for run in runs for call in run.actions),
        slowest_first_byte_ms=max((call.first_byte_ms or 0 for call in calls), default=0) or None,
        slowest=[SlowCall(event_id, name, duration) for duration, event_id, name in slowest],
    )


def _durations(runs: list[AgentRun]) -> Iterator[tuple[int, str, str]]:
    for run in runs:
        for tool_call in run.actions:
            if tool_call.duration_ms:
                yield tool_call.duration_ms, tool_call.evidence, tool_call.tool
        for call in run.model_calls:
            if call.duration_ms:
                yield call.duration_ms, call.event_id, "model call"


def context_analysis(runs: list[AgentRun]) -> ContextAnalysis:
    """Compare the size of each request with its budget."""
    calls = sorted((call for run in runs for call in run.model_calls), key=lambda call: call.order)
    largest = max((call for run in runs for call in run.actions), key=lambda call: call.output_size, default=None)
    known = [used for call in calls if (used := context_saturation(call)) is not None]
    return ContextAnalysis(
        requests=[_size_of(call) for call in _thinned(calls)],
        requests_total=len(calls),
        peak_saturation=round(max(known), 4) if known else None,
        over_budget=sum(used > 1 for used in known),
        compactions=sum(len(run.compactions) for run in runs),
        largest_result_bytes=largest.output_size if largest is not None else None,
        largest_result_event=largest.evidence if largest is not None else None,
    )


def _size_of(call: ModelCall) -> RequestSize:
    used = context_saturation(call)
    return RequestSize(
        event_id=call.event_id,
        request_bytes=call.request_bytes,
        input_tokens=call.input_tokens,
        budget_tokens=call.budget_tokens,
        saturation=None if used is None else round(used, 4),
    )


def _thinned(calls: list[ModelCall]) -> list[ModelCall]:
    """Return an evenly spaced selection of model calls, always with the one that filled its budget most."""
    if len(calls) <= MAX_REQUESTS:
        return calls
    stride = -(-len(calls) // MAX_REQUESTS)
    fullest = max(calls, key=lambda call: (context_saturation(call) or 0, call.request_bytes or 0))
    return [call for number, call in enumerate(calls) if number % stride == 0 or call is fullest]
