"""Events of the recorder and the supervisor as slices of time: agent runs, turns, model calls, tool calls, process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from critiqor.exporters.trace.described_spans import DescribedSpans, Description
from critiqor.exporters.trace.event_facts import event_time_us, facts_of
from critiqor.model.event import Event, EventType, place_of
from critiqor.model.resources import ResourceUsage
from critiqor.model.timestamps import us_of
from critiqor.model.trace import Counter, Fact, Instant, Part, Slice, Track, label
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.span import Span, SpanKind

RECORDER = "recorder"
SUPERVISOR = "supervisor"
FIRST_SAMPLE_SECONDS = 0.5
"""Time from the process start to the first memory sample; one sampling interval if that is shorter."""
_INNER_CALL = 3
_DEPTHS: dict[SpanKind, int] = {"agent": 0, "turn": 1, "model": 2, "tool": 2, "compaction": 2, "memory": 4}
"""Nesting of slices. Simultaneous calls are side by side; an inner tool call is inside its outer one."""


def activity(events: Iterable[Event]) -> Iterator[Part]:
    """Build the parts of a trace from events in true order."""
    builder = _Activity()
    for event in events:
        yield from builder.observe(event)
    yield from builder.finish()


class _Process(NamedTuple):
    """The process that the supervisor launched."""

    start_us: int
    facts: dict[str, Fact]


class _Activity:
    def __init__(self) -> None:
        self._spans = DescribedSpans()
        self._tracks: dict[AgentRun, Track] = {}
        self._pids: dict[str, int] = {}
        """Process ids of the writers of events."""
        self._process: _Process | None = None
        self._launched_pid: int | None = None

    def observe(self, event: Event) -> Iterator[Part]:
        """Yield the parts that an event completes."""
        at_us = event_time_us(event)
        if at_us is None:
            return
        if event.source_layer == "supervisor":
            yield from self._supervisor_parts(event, at_us)
            return
        pairing = self._spans.observe(event, at_us)
        if pairing is None:
            if event.event_type == EventType.RECORDER_ATTACHED:
                self._note_pid(event)
            yield _instant(self._track_of(event), event, at_us)
            return
        run = pairing.run
        if run not in self._tracks:
            self._tracks[run] = self._track_of(event)
        for span in pairing.cut:
            yield self._slice(run, span)
        if pairing.closed is not None:
            yield self._slice(run, pairing.closed, failed=event.status == "error")

    def finish(self) -> Iterator[Part]:
        """Yield the parts that have not ended."""
        for pairing in self._spans.finish():
            for span in pairing.cut:
                yield self._slice(pairing.run, span)
        if self._process is not None:
            yield self._process_slice(None, {}, failed=False)

    def _slice(self, run: AgentRun, span: Span[Description], *, failed: bool = False) -> Slice:
        name, facts = span.data or Description(span.kind, {})
        return Slice(
            track=self._tracks[run],
            name=name,
            category=span.kind,
            start_us=span.start_us,
            end_us=span.end_us,
            depth=_INNER_CALL if span.is_inner else _DEPTHS[span.kind],
            family=label(run.scope.agent_run_id or ""),
            finished=span.has_end,
            failed=failed,
            facts=facts,
        )

    def _track_of(self, event: Event) -> Track:
        place = place_of(event.event_id)
        pid = self._pids.get(place.writer) if place is not None else None
        return Track(pid, RECORDER if event.session_key is None else f"session {label(event.session_key)}")

    def _note_pid(self, event: Event) -> None:
        place, pid = place_of(event.event_id), event.payload.get("pid")
        if place is not None and isinstance(pid, int) and not isinstance(pid, bool):
            self._pids[place.writer] = pid

    def _supervisor_parts(self, event: Event, at_us: int) -> Iterator[Part]:
        kind = event.event_type
        if kind == EventType.PROCESS_START:
            pid = event.payload.get("pid")
            self._launched_pid = pid if isinstance(pid, int) else None
            self._process = _Process(at_us, facts_of(event))
        elif kind == EventType.PROCESS_END:
            failed = event.payload.get("exit_code") not in (None, 0)
            yield self._process_slice(at_us, facts_of(event), failed=failed)
        elif kind == "resource_usage":
            yield from self._memory_counters(event, at_us)
        else:
            yield _instant(Track(None, SUPERVISOR), event, at_us)

    def _process_slice(self, end_us: int | None, facts: dict[str, Fact], *, failed: bool) -> Slice:
        process = self._process or _Process(end_us or 0, {})
        self._process = None
        return Slice(
            track=Track(self._launched_pid, "process"),
            name="process",
            category="process",
            start_us=process.start_us,
            end_us=end_us,
            finished=end_us is not None,
            failed=failed,
            facts={**facts, **process.facts},
        )

    def _memory_counters(self, event: Event, at_us: int) -> Iterator[Counter]:
        """Yield the memory samples. Their times are relative to the first sample, whose own time is not recorded."""
        try:
            usage = msgspec.convert(event.payload, ResourceUsage)
        except msgspec.ValidationError:
            return
        if self._process is not None:
            first_us = self._process.start_us + us_of(min(usage.interval_seconds, FIRST_SAMPLE_SECONDS) * 1000)
        else:
            first_us = at_us - us_of(max((point.seconds for point in usage.series), default=0) * 1000)
        for point in usage.series:
            moment = us_of(first_us / 1000 + point.seconds * 1000)
            figures = {"": round(point.rss_bytes / (1 << 20), 3)}
            yield Counter(pid=None, name="memory of all processes", unit="MiB", at_us=moment, figures=figures)


def _instant(track: Track, event: Event, at_us: int) -> Instant:
    return Instant(track=track, name=label(event.event_type), category="event", at_us=at_us, facts=facts_of(event))
