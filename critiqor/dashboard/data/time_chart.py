"""A run as a picture of lanes: what took time, by kind, and within a kind beside each other what overlapped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from critiqor.exporters.trace.activity import is_retry
from critiqor.exporters.trace.lanes import lay_out
from critiqor.model.trace import Instant, Slice, Trace

KINDS = {
    "process": "Processes",
    "agent": "Agent runs",
    "retry": "Retries",
    "turn": "Turns",
    "model": "Model calls",
    "tool": "Tools",
    "memory": "Memory",
    "compaction": "Compactions",
    "stall": "Event-loop stalls",
    "provider": "Requests (OpenClaw)",
    "span": "Spans (OpenClaw)",
    "child": "Child processes",
}
"""What is drawn, from top to bottom, and what it is called."""
MOST_LANES = 8
"""Lanes of one kind; what needs more is drawn over the last one."""


class Bar(NamedTuple):
    """Something that took time, where it is drawn."""

    kind: str
    lane: int
    """From 1."""
    start_us: int
    end_us: int
    name: str
    failed: bool | int
    event_id: str | None
    times: int = 1
    """How many it stands for, where they are too short to be drawn alone."""


def bars_of(trace: Trace) -> Iterator[Bar]:
    """What is drawn of a trace."""
    end = trace.end_us
    for kind in KINDS:
        for placed in lay_out((slice_ for slice_ in trace.slices if _kind(slice_) == kind), end):
            slice_ = placed.slice
            name = slice_.name
            lane = min(placed.lane, MOST_LANES)
            event_id = slice_.facts.get("event_id")
            yield Bar(
                kind,
                lane,
                placed.start_us,
                placed.end_us,
                name if slice_.finished else f"{name} (its end was not seen)",
                slice_.failed,
                event_id if isinstance(event_id, str) else None,
            )
    yield from _retries(trace.instants)


def _kind(slice_: Slice) -> str:
    return "retry" if is_retry(slice_) else slice_.category


def _retries(instants: Iterable[Instant]) -> Iterator[Bar]:
    for instant in instants:
        if is_retry(instant):
            event_id = instant.facts.get("event_id")
            told = event_id if isinstance(event_id, str) else None
            yield Bar("retry", 1, instant.at_us, instant.at_us, instant.name, False, told)
