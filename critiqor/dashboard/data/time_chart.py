"""The time chart of a run: bars of sessions and kinds, with lanes for bars that overlap, and the shown window."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from critiqor.exporters.trace.lanes import lay_out
from critiqor.model.trace import Instant, Slice, Trace, is_retry, label

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
"""Kinds of bars from top to bottom, with their labels."""
SESSION_KINDS = ("agent", "retry", "turn", "model", "tool", "memory", "compaction")
"""Kinds of bars that belong to a session."""
MAX_LANES = 8
"""Maximum number of lanes of one kind; further bars are drawn over the last one."""


class Bar(NamedTuple):
    """One bar of the chart."""

    kind: str
    lane: int
    """Starts at 1."""
    start_us: int
    end_us: int
    name: str
    failed: bool | int
    event_id: str | None
    session: int = 0
    """Number of its session; 0 for bars that belong to none."""
    message: int | None = None
    """The event with the message that an agent run answers."""
    times: int = 1
    """Number of joined bars, if they are too short to be drawn separately."""


class ChartWindow(NamedTuple):
    """The part of a run that the time chart shows, in microseconds since 1970."""

    start: int
    end: int
    first: int
    """Start of the run."""
    last: int
    """End of the run."""
    rest: str = ""
    """The rest of the query of its address."""

    @property
    def query(self) -> str:
        """The window as the query of an address, in milliseconds since the start of the run."""
        times = f"?from={(self.start - self.first) / 1000}&to={(self.end - self.first) / 1000}"
        return f"{times}&{self.rest}" if self.rest else times

    @property
    def is_whole(self) -> bool:
        return (self.start, self.end) == (self.first, self.last)

    def moved(self, left: float, right: float) -> ChartWindow:
        """Return the window of the chart whose edges are shifted by multiples of its length, within the run."""
        length = self.end - self.start
        start = max(self.first, min(round(self.start + left * length), self.last - 1))
        end = min(self.last, max(round(self.end + right * length), start + 1))
        return self._replace(start=start, end=end)


class AgentRuns(NamedTuple):
    """What the bars of a trace are named by."""

    sessions: Mapping[str, int]
    """Numbers of sessions by the names of their tracks."""
    messages: Mapping[str, int]
    """The events with the messages of agent runs, by their ids."""


class ChartBounds(NamedTuple):
    """When something began and ended, in microseconds since 1970."""

    start_us: int
    end_us: int

    def joined(self, start_us: int, end_us: int) -> ChartBounds:
        """Return the time of the chart from the earlier start to the later end."""
        return ChartBounds(min(self.start_us, start_us), max(self.end_us, end_us))


def agent_run_bounds(trace: Trace) -> dict[str, ChartBounds]:
    """Return where the bar of each agent run begins and ends, by the recorder and OpenClaw's timeline."""
    bounds = _recorded_bounds(trace)
    for slice_ in trace.slices:
        if slice_.category in ("span", "provider") and slice_.end_us is not None:
            named = slice_.facts.get("agent_run_id", slice_.facts.get("run_id"))
            family = label(named) if isinstance(named, str) else ""
            if family in bounds:
                bounds[family] = bounds[family].joined(slice_.start_us, slice_.end_us)
    return bounds


def _recorded_bounds(trace: Trace) -> dict[str, ChartBounds]:
    """Return when each agent run began and ended, by the recorder."""
    bounds: dict[str, ChartBounds] = {}
    for slice_ in trace.slices:
        if slice_.category == "agent" and slice_.family:
            start, end = slice_.start_us, trace.end_us if slice_.end_us is None else slice_.end_us
            bounds[slice_.family] = bounds.get(slice_.family, ChartBounds(start, end)).joined(start, end)
    return bounds


class _Durations:
    """Gives slices the times that all other pages show."""

    def __init__(self, trace: Trace) -> None:
        self._recorded = _recorded_bounds(trace)
        self._bounds = agent_run_bounds(trace)

    def of(self, slice_: Slice) -> Slice:
        """Return a slice of an agent run with all of its time, and one of a call with the duration that it reported."""
        bounds = self._bounds.get(slice_.family or "")
        if bounds is None or slice_.end_us is None:
            return slice_
        start, end = slice_.start_us, slice_.end_us
        if slice_.category == "agent":
            recorded = self._recorded[slice_.family or ""]
            start = bounds.start_us if start == recorded.start_us else start
            end = bounds.end_us if end == recorded.end_us else end
        reported = slice_.facts.get("duration_ms")
        if slice_.category in ("model", "tool") and isinstance(reported, int | float) and reported >= 0:
            start = min(end, max(bounds.start_us, end - round(reported * 1000)))
        return msgspec.structs.replace(slice_, start_us=start, end_us=end)


def chart_bars(trace: Trace, runs: AgentRuns) -> Iterator[Bar]:
    """Yield the bars of the time chart for a trace: those of each session by kind, on as many lanes as overlap."""
    end = trace.end_us
    rows: dict[tuple[int, str], list[Slice]] = {}
    durations = _Durations(trace)
    for slice_ in map(durations.of, trace.slices):
        kind = _kind(slice_)
        session = runs.sessions.get(slice_.track.name, 0) if kind in SESSION_KINDS else 0
        rows.setdefault((session, kind), []).append(slice_)
    for (session, kind), slices in rows.items():
        for placed in lay_out(slices, end) if kind in KINDS else ():
            slice_ = placed.slice
            name = slice_.name
            event_id = slice_.facts.get("event_id")
            yield Bar(
                kind,
                min(placed.lane, MAX_LANES),
                placed.start_us,
                placed.end_us,
                name if slice_.finished else f"{name} (its end was not seen)",
                slice_.failed,
                event_id if isinstance(event_id, str) else None,
                session,
                runs.messages.get(slice_.family or "") if kind == "agent" else None,
            )
    yield from _retries(trace.instants, runs)


def _kind(slice_: Slice) -> str:
    return "retry" if is_retry(slice_) else slice_.category


def _retries(instants: Iterable[Instant], runs: AgentRuns) -> Iterator[Bar]:
    for instant in instants:
        if is_retry(instant):
            event_id = instant.facts.get("event_id")
            known_id = event_id if isinstance(event_id, str) else None
            session = runs.sessions.get(instant.track.name, 0)
            yield Bar("retry", 1, instant.at_us, instant.at_us, instant.name, False, known_id, session)
