"""Lines of a timeline as slices, instants and counters of a trace, in order: for charts, not for statistics.

Each part is yielded as soon as its line is read: only open spans are kept in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath

from critiqor.model.timestamps import us_of
from critiqor.model.trace import MAX_MS, Counter, Fact, Instant, Part, Slice, Track, label
from critiqor.storage.journal import read_chunks
from critiqor.timeline.reader.lines import LineReader
from critiqor.timeline.reader.problems import LineProblems
from critiqor.timeline.reader.records import (
    ChildExit,
    Line,
    LoopSample,
    ProviderCall,
    Record,
    SpanEnd,
    SpanError,
    SpanStart,
    Unknown,
    moment_ms,
)
from critiqor.timeline.spans import closed_span, detail_of

MAX_OPEN = 100_000
"""Open spans that are remembered; older ones are reported as unfinished."""
SPANS = "OpenClaw spans"
REQUESTS = "OpenClaw requests to providers"
CHILDREN = "OpenClaw child processes"
_GRAIN_US = 1000
"""Timestamps are truncated to milliseconds: each can be too early by that much."""

_Key = tuple[int | None, str | None]
"""A process id and the id of one of its spans."""


def read_trace_parts(path: Path, limit: int | None = None) -> Iterator[Part]:
    """Yield the trace parts of a timeline file, or of its first `limit` bytes, in the order of its lines.

    A span is yielded when it ends; spans that are still open come last.
    """
    converter = _Converter()
    reader = LineReader(converter.take, LineProblems.empty())
    for data in read_chunks(path, limit):
        reader.feed(data)
        yield from converter.drain()
    reader.finish()
    yield from converter.drain()
    yield from converter.unfinished()


class _OpenSpan:
    """A span that has not ended yet."""

    __slots__ = ("depth", "record")

    def __init__(self, record: SpanStart, depth: int | None) -> None:
        self.record = record
        self.depth = depth


class _Converter:
    def __init__(self) -> None:
        self._parts: list[Part] = []
        self._open: dict[_Key, _OpenSpan] = {}
        self._reached: dict[_Key, int] = {}
        """By parent span: when the last of its children ended, in microseconds."""

    def take(self, records: Sequence[Record], _: int) -> None:
        for record in records:
            if isinstance(record, SpanStart):
                self._start(record)
            elif isinstance(record, SpanEnd | SpanError):
                self._parts.append(self._end(record))
            else:
                self._parts.append(_single_line_part(record))

    def drain(self) -> list[Part]:
        """Return the parts since the last call."""
        parts, self._parts = self._parts, []
        return parts

    def unfinished(self) -> Iterator[Slice]:
        """Yield the spans that have not ended."""
        for opened in self._open.values():
            yield _unfinished(opened, None)

    def _start(self, record: SpanStart) -> None:
        key = (record.pid, record.span_id or record.name)
        reopened = self._open.pop(key, None)
        if reopened is not None:
            self._parts.append(_unfinished(reopened, us_of(moment_ms(record))))
        elif len(self._open) >= MAX_OPEN:
            self._parts.append(_unfinished(self._open.pop(next(iter(self._open))), None))
        self._open[key] = _OpenSpan(record, self._depth(record))

    def _depth(self, record: Line) -> int | None:
        """Return the depth of a span by its parent; None if it has none, since it can then be inside any span."""
        if record.parent_span_id is None:
            return None
        parent = self._open.get((record.pid, record.parent_span_id))
        return 1 if parent is None else (parent.depth or 0) + 1

    def _end(self, record: SpanEnd | SpanError) -> Slice:
        key = (record.pid, record.span_id or record.name)
        opened = self._open.pop(key, None)
        span = closed_span(record)
        start, end = us_of(span.start), us_of(span.end)
        if record.duration_ms is None or not _is_possible(record.duration_ms):
            start = end if opened is None else min(end, us_of(moment_ms(opened.record)))
        late = self._lateness(key, (record.pid, record.parent_span_id), start, end)
        facts = _facts(record)
        if isinstance(record, SpanError) and record.error_name:
            facts["error"] = label(record.error_name)
        return Slice(
            track=Track(record.pid, SPANS),
            name=_label(record),
            category="span",
            start_us=start + late,
            end_us=end + late,
            depth=opened.depth if opened is not None else self._depth(record),
            failed=span.failed,
            facts=facts,
        )

    def _lateness(self, key: _Key, parent: _Key, start: int, end: int) -> int:
        """Return the microseconds by which to move a span so that it follows its siblings and contains its children.

        Many short spans end within one millisecond, so all of them seem to end at the same time.
        """
        needed = (self._reached.get(parent, 0) - start, self._reached.pop(key, 0) - end)
        late = max((late for late in needed if 0 < late <= _GRAIN_US), default=0)
        if len(self._reached) >= MAX_OPEN:
            self._reached.clear()
        self._reached[parent] = max(end + late, self._reached.get(parent, 0))
        return late


def _unfinished(opened: _OpenSpan, end_us: int | None) -> Slice:
    record = opened.record
    return Slice(
        track=Track(record.pid, SPANS),
        name=_label(record),
        category="span",
        start_us=us_of(moment_ms(record)),
        end_us=end_us,
        depth=opened.depth,
        finished=False,
        facts=_facts(record),
    )


def _single_line_part(record: Record) -> Part:
    """Return the part for a line that is complete by itself."""
    at = us_of(moment_ms(record))
    if isinstance(record, ProviderCall):
        return _request(record)
    if isinstance(record, ChildExit):
        return _child(record)
    if isinstance(record, LoopSample):
        delays = {"p50": record.p50_ms, "p95": record.p95_ms, "p99": record.p99_ms, "max": record.max_ms}
        figures = {name: delay for name, delay in delays.items() if delay is not None}
        return Counter(pid=record.pid, name="event loop delay", unit="ms", at_us=at, figures=figures)
    facts = _facts(record)
    if record.duration_ms is not None:
        facts["duration_ms"] = record.duration_ms
    if record.attributes is not None and record.attributes.decision is not None:
        facts["decision"] = record.attributes.decision
    if isinstance(record, Unknown):
        facts["type"] = record.type
    return Instant(track=Track(record.pid, SPANS), name=_label(record), category="mark", at_us=at, facts=facts)


def _request(record: ProviderCall) -> Slice:
    span = closed_span(record)
    duration = span.duration if _is_possible(span.duration) else 0.0
    known = {"provider": record.provider, "operation": record.operation, "run_id": record.run_id}
    facts: dict[str, Fact] = {name: value for name, value in known.items() if value is not None}
    if record.status is not None:
        facts["status"] = record.status
    return Slice(
        track=Track(record.pid, REQUESTS),
        name=_label(record),
        category="provider",
        start_us=us_of(span.start),
        end_us=us_of(span.start + duration),
        failed=span.failed,
        facts={**_facts(record), **facts},
    )


def _child(record: ChildExit) -> Slice:
    span = closed_span(record)
    duration = span.duration if _is_possible(span.duration) else 0.0
    # The program alone: arguments can hold secrets.
    words = (record.command or "").split(maxsplit=1)
    facts: dict[str, Fact] = {} if record.exit_code is None else {"exit_code": record.exit_code}
    if record.signal is not None:
        facts["signal"] = label(record.signal)
    return Slice(
        track=Track(record.pid, CHILDREN),
        name=label(PurePath(words[0]).name) if words else record.name,
        category="child",
        start_us=us_of(span.end - duration),
        end_us=us_of(span.end),
        failed=record.signal is not None or record.exit_code not in (None, 0),
        facts=facts,
    )


def _is_possible(duration_ms: float) -> bool:
    return 0 <= duration_ms <= MAX_MS


def _label(record: Line) -> str:
    detail = detail_of(record)
    return f"{record.name} ({detail})" if detail else record.name


def _facts(record: Line) -> dict[str, Fact]:
    known = {
        "phase": record.phase,
        "span_id": record.span_id,
        "parent_span_id": record.parent_span_id,
        "agent_run_id": record.attributes.run_id if record.attributes is not None else None,
    }
    return {name: value for name, value in known.items() if value is not None}
