"""Aggregation of the records of a timeline, in bounded memory.

Most of the time of reading a timeline is spent here. Therefore the two frequent lines, start and end of a span, are
handled inline in one loop, records are stored unconverted until more is needed, and rare cases are handled in separate
methods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from typing import Any

import msgspec

from critiqor.model.timestamps import moment_before
from critiqor.timeline.aggregators import (
    ChildAggregator,
    PluginAggregator,
    ProviderAggregator,
    SpanAggregator,
    SpanPurpose,
    StallAggregator,
)
from critiqor.timeline.process_state import ProcessState
from critiqor.timeline.reader.problems import ProblemCounter
from critiqor.timeline.reader.records import (
    ChildExit,
    Line,
    LoopSample,
    Mark,
    ProviderCall,
    Record,
    SpanEnd,
    SpanError,
    SpanStart,
    Unknown,
    exact_types,
    frequent_types,
    moment_ms,
)
from critiqor.timeline.slowest import Slowest
from critiqor.timeline.spans import OVERLAPPING, closed_span, covered_by_inner_spans
from critiqor.timeline.turns.startup import READY, is_startup
from critiqor.timeline.turns.timeline_turns import PREPARATION_PHASES, TURN_NAME, TURN_PHASE

MAX_NAMES = 1000
MAX_OPEN = 10_000
"""Open spans of all processes together."""
MAX_PROCESSES = 1024
MAX_SLOWEST = 10
MAX_STARTUP_SPANS = 512
"""Maximum number of start-up spans of one process; later spans are not part of its start-up."""
MAX_STARTUP_SPANS_IN_ALL = 8192
OTHER_NAMES = "(other names)"
STAGING = "runtimeDeps.stage"
Ending = SpanEnd | SpanError
_pid = attrgetter("pid")

_COMPACT_EVERY = 16
"""Number of calls of `take` between two compactions."""


class RecordProcessor:
    """Statistics of the records taken so far."""

    def __init__(self, irregular: ProblemCounter) -> None:
        self.irregular = irregular
        self.events = 0
        self.untimed = 0
        """Ends of spans without a duration and without a start to compute it from."""
        self.errors = 0
        self.marks = 0
        self.unknown: Counter[str] = Counter()
        """Events by types that are not in the contract."""
        self.processes: dict[int | None, ProcessState] = {}
        self.spans: dict[str, SpanAggregator] = {}
        self.slowest: Slowest[tuple[Line, float]] = Slowest(MAX_SLOWEST)
        """The slowest spans, each with its self time: what no span inside it covers."""
        self.stalls = StallAggregator()
        self.providers = ProviderAggregator()
        self.children = ChildAggregator()
        self.plugins = PluginAggregator()
        self._records: Sequence[Record] = []
        self._number = 0
        self._startup_spans = 0
        self._calls = 0

    def take(self, records: Sequence[Record], number: int) -> None:
        """Take the records of consecutive lines; `number` is that of the first line."""
        self._records, self._number = records, number
        self.events += len(records)
        self._take(records)
        self._records = []  # the next block reuses this memory while it is in the CPU cache
        self._calls += 1
        if self._calls % _COMPACT_EVERY == 0:
            self._compact()

    def _take(self, records: Sequence[Record]) -> None:
        spans, slowest = self.spans, self.slowest
        start_type, end_type, error_type, request_type = frequent_types(records[0])
        shortest_cause, floor = self.stalls.shortest_cause, slowest.floor
        for pid, same_process in groupby(records, _pid):
            group = list(same_process)
            process = self._process(group[0])
            process.events += len(group)
            open_spans, inside, open_turns, last = process.open, process.inside, process.open_turns, process.last
            for record in group:
                if type(record) is start_type:
                    moment = record.timestamp
                    if moment < last:
                        self._note_clock_set_back(process, record, last)
                    last = moment
                    name = record.name
                    if open_spans.setdefault(record.span_id or name, record) is not record:
                        self._reopen(process, record)
                    if record.phase == TURN_PHASE or name == TURN_NAME:
                        process.turns.start_span(record, open_spans)
                elif type(record) is end_type or type(record) is error_type:
                    moment = record.timestamp
                    if moment < last:
                        self._note_clock_set_back(process, record, last)
                    last = moment
                    name, duration, parent = record.name, record.duration_ms, record.parent_span_id
                    key = record.span_id or name
                    started = open_spans.pop(key, None)
                    if started is None or duration is None:
                        record = self._complete_end(process, record, started)
                        duration = record.duration_ms
                        if duration is None:
                            self._count_untimed(record)
                            continue
                    try:
                        span = spans[name]
                    except KeyError:
                        span = self._add_name(name)
                    span.pending.append(duration)
                    own = duration
                    if key in inside:
                        covered = covered_by_inner_spans(inside.pop(key))
                        own = duration - covered if covered < duration else 0.0
                        span.covered += duration - own
                    if parent is not None:
                        siblings = inside.get(parent)
                        if siblings is not None:
                            # A span whose start was written with its end began earlier than its start line says.
                            began = moment if started is None else started.timestamp
                            if began < siblings[-2] or began == moment:
                                siblings[OVERLAPPING] = True
                            siblings.append(moment)
                            siblings.append(duration)
                        elif parent in open_spans:
                            inside[parent] = [False, 0.0, moment, duration]
                    if duration >= floor:
                        slowest.offer(duration, (moment, pid or 0, name, key), (record, own))
                        floor = slowest.floor
                    if duration >= shortest_cause or open_turns:
                        process.closed.append(record)
                        if key in open_turns:
                            process.turns.end_span(record, key, process.closed)
                            if process.working_since is None:
                                process.mark_working(_start_time(record))
                    if span.purpose is not None or process.is_young or type(record) is error_type:
                        self._end_special_span(process, span, record)
                elif type(record) is request_type:
                    if record.timestamp > last:
                        last = record.timestamp
                    self._add_request(process, record)
                else:
                    if record.timestamp < last:
                        self._note_clock_set_back(process, record, last)
                    last = record.timestamp
                    _RARE[type(record)](self, process, record)
            process.last = last

    def finish(self) -> None:
        """Complete the statistics after the last record."""
        self._compact()
        for process in self.processes.values():
            process.turns.finish(process.open, process.latest.timestamp() * 1000)

    def by_type(self) -> dict[str, int]:
        """Return the number of events of each type."""
        ends = self.untimed + sum(span.samples for span in self.spans.values())
        counts = {
            "childProcess.exit": self.children.count,
            "eventLoop.sample": self.stalls.samples,
            "mark": self.marks,
            "provider.request": self.providers.durations.samples,
            "span.end": ends - self.errors,
            "span.error": self.errors,
            **self.unknown,
        }
        counts["span.start"] = self.events - sum(counts.values())
        return {name: count for name, count in sorted(counts.items()) if count}

    def _note(self, record: Record, kind: str, what: str | None = None) -> None:
        """Count an irregularity of a record."""
        self.irregular.add(self._line_of(record), kind, what)

    def _line_of(self, record: Line) -> int:
        """Return the line number of a record, or of the original record if it was completed."""
        for place, other in enumerate(self._records):
            if other is record:
                return self._number + place
        return self._number + next(place for place, other in enumerate(self._records) if _is_same(other, record))

    def _process(self, record: Record) -> ProcessState:
        process = self.processes.get(record.pid)
        if process is None:
            full = len(self.processes) >= MAX_PROCESSES
            if full:
                self._note(record, "too_many_processes")
            process = self.processes.setdefault(None if full else record.pid, ProcessState(record))
        return process

    def _note_clock_set_back(self, process: ProcessState, record: Record, last: datetime) -> None:
        """Note that a line is older than the previous line of its process."""
        self._note(record, "out_of_order")
        process.reached = max(process.reached, last)

    def _add_name(self, name: str) -> SpanAggregator:
        if len(self.spans) >= MAX_NAMES:
            name = OTHER_NAMES
        purpose: SpanPurpose | None = None
        if name == STAGING:
            purpose = "staging"
        elif name in PREPARATION_PHASES:
            purpose = "preparation"
        return self.spans.setdefault(name, SpanAggregator(purpose))

    def _reopen(self, process: ProcessState, record: SpanStart) -> None:
        """Replace an open span that is started again; the end of the first one is unknown."""
        self._note(record, "start_repeated")
        key = record.span_id or record.name
        process.open[key] = record
        process.inside.pop(key, None)

    def _count_untimed(self, record: Ending) -> None:
        self.untimed += 1
        self.errors += isinstance(record, SpanError)

    def _complete_end(self, process: ProcessState, record: Ending, started: SpanStart | None) -> Ending:
        """Return the end of a span that lacks its start or duration, with a duration if one can be computed."""
        if started is None:
            if process.evicted:
                process.evicted -= 1
            else:
                self._note(record, "end_without_start")
        if record.duration_ms is not None or started is None:
            return record
        measured = max(0.0, round(moment_ms(record) - moment_ms(started), 3))
        return msgspec.structs.replace(record, duration_ms=measured)

    def _end_special_span(self, process: ProcessState, span: SpanAggregator, record: Ending) -> None:
        """Handle a span that failed, that has a special purpose, or that comes early in the life of its process."""
        if isinstance(record, SpanError):
            self.errors += 1
            span.failed += 1
        if span.purpose == "staging":
            self.plugins.add_staging(record)
        if process.is_young:
            process.guess_role(record.name)
            if process.is_starting and is_startup(record, is_working=process.working_since is not None):
                self._add_startup_span(process, record)
                return
        if span.purpose == "preparation":
            process.mark_working(_start_time(record))
            if record.parent_span_id not in process.open:
                process.turns.add_preparation(closed_span(record))

    def _add_startup_span(self, process: ProcessState, record: Ending) -> None:
        process.startup.append(record)
        self._startup_spans += 1
        duration = record.duration_ms or 0.0
        if duration >= process.longest_startup_ms:
            process.longest_startup_ms, process.longest_startup_line = duration, self._line_of(record)
        if record.name == READY:
            process.ready_at = record.timestamp
        full = self._startup_spans >= MAX_STARTUP_SPANS_IN_ALL
        process.is_starting = not full and len(process.startup) < MAX_STARTUP_SPANS

    def _add_sample(self, process: ProcessState, record: LoopSample) -> None:
        self.stalls.add(process, record, self._line_of)

    def _add_child(self, _: ProcessState, record: ChildExit) -> None:
        self.children.add(record, self._line_of)

    def _add_unknown(self, _: ProcessState, record: Unknown) -> None:
        known = record.type in self.unknown or len(self.unknown) < MAX_NAMES
        self.unknown[record.type if known else OTHER_NAMES] += 1

    def _add_mark(self, process: ProcessState, record: Mark) -> None:
        self.marks += 1
        if process.is_young:
            process.guess_role(record.name)
            if process.is_starting and is_startup(record, is_working=False):
                process.born = min(process.born, _start_time(record))
                if record.name == READY:
                    process.ready_at, process.is_starting = record.timestamp, False
        self.plugins.add_mark(record)
        process.turns.add_mark(record)

    def _add_request(self, process: ProcessState, record: ProviderCall) -> None:
        self.providers.add(record, self._line_of)
        process.turns.end_request(record)
        if process.working_since is None:
            process.mark_working(record.timestamp)

    def _compact(self) -> None:
        for span in (*self.spans.values(), self.providers.durations):
            span.fold()
        open_spans = 0
        for process in self.processes.values():
            process.compact()
            open_spans += len(process.open)
        if open_spans > MAX_OPEN:
            max(self.processes.values(), key=lambda process: len(process.open)).evict_open_spans()


_HANDLERS: dict[type[Line], Callable[[RecordProcessor, ProcessState, Any], None]] = {
    Mark: RecordProcessor._add_mark,
    LoopSample: RecordProcessor._add_sample,
    ChildExit: RecordProcessor._add_child,
    Unknown: RecordProcessor._add_unknown,
}
_RARE = {exact: handler for kind, handler in _HANDLERS.items() for exact in exact_types(kind)}
"""By exact type, because `isinstance` is slow for structs."""


def _is_same(record: Line, other: Line) -> bool:
    same = record.timestamp == other.timestamp and record.span_id == other.span_id and record.name == other.name
    return same and type(record) is type(other) and record.pid == other.pid


def _start_time(record: Line) -> datetime:
    """Return the start of the operation that ended with this record."""
    return moment_before(record.timestamp, record.duration_ms or 0.0)
