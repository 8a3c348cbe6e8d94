"""The latency and context analyses of a diagnosis, from the totals of a recording."""

from __future__ import annotations

from bisect import insort
from operator import attrgetter

from critiqor.diagnosis.detectors.context_pollution import context_saturation
from critiqor.diagnosis.runs.request_log import RequestLog
from critiqor.diagnosis.runs.totals import Totals
from critiqor.model import ContextAnalysis, Event, LatencyAnalysis, RequestSize, SlowCall, ms_from_iso
from critiqor.model.timestamps import is_real_time
from critiqor.spans.calls import ModelCall

MAX_REQUESTS = 400
"""Maximum number of requests that the context analysis lists, plus the fullest one."""


def latency_analysis(totals: Totals, launch: Event | None, end: Event | None) -> LatencyAnalysis:
    """Return the time spent with models and in tools, and the slowest calls.

    `launch` and `end` are the start and the end of the process, if it was supervised.
    """
    began = ms_from_iso(totals.first_time if launch is None else launch.timestamp)
    ended = ms_from_iso(totals.last_time if end is None else end.timestamp)
    is_timed = began is not None and ended is not None and is_real_time(began)
    return LatencyAnalysis(
        wall_ms=max(0, ended - began) if is_timed and began is not None and ended is not None else None,
        model_ms=totals.model_ms,
        tool_ms=totals.tool_ms,
        slowest_first_byte_ms=totals.first_byte_ms or None,
        slowest=[SlowCall(call.event_id, call.name, -call.key[0]) for call in totals.slowest],
    )


def context_analysis(totals: Totals, requests: RequestLog) -> ContextAnalysis:
    """Compare the size of each request with its budget."""
    largest = totals.largest
    return ContextAnalysis(
        requests=[_size_of(call) for call in _listed(totals, requests)],
        requests_total=requests.total,
        peak_saturation=round(totals.peak, 4) if totals.peak is not None else None,
        over_budget=totals.over_budget,
        compactions=totals.compactions,
        largest_result_bytes=-largest.key[0] if largest is not None else None,
        largest_result_event=largest.event_id if largest is not None else None,
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


def _listed(totals: Totals, requests: RequestLog) -> list[ModelCall]:
    """Return an evenly spaced selection of model calls, always with the one that filled its budget most."""
    selected = requests.selection(MAX_REQUESTS)
    fullest = totals.fullest
    if fullest is not None and all(call is not fullest for call in selected):
        insort(selected, fullest, key=attrgetter("order"))
    return selected
