"""Takes the records of a timeline one by one and keeps what the summary needs, in bounded space.

This is where the time goes when a timeline is read. So the two frequent lines, start and end of a span, are handled in
the loop itself, records are kept as they are until somebody wants to know more of one, and whatever is not needed for
every line is left for the rare case.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

from critiqor.timeline.figures import ChildTally, Meaning, PluginTally, ProviderTally, SpanTally, StallTally
from critiqor.timeline.reader.problems import Problems
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
    earlier,
    moment_ms,
)
from critiqor.timeline.spans import Slowest, closed_span
from critiqor.timeline.turns.processes import OVERLAPPING, Process, taken_inside
from critiqor.timeline.turns.startup import READY, is_startup
from critiqor.timeline.turns.timeline_turns import PREPARING, TURN_NAME, TURN_PHASE

MOST_NAMES = 1000
MOST_OPEN = 10_000
"""Open spans of all processes together."""
MOST_PROCESSES = 1024
MOST_SLOWEST = 10
MOST_STARTUP_SPANS = 512
"""Of one process; what comes later is no start-up any more."""
MOST_STARTUP_SPANS_IN_ALL = 8192
OTHER_NAMES = "(other names)"
STAGING = "runtimeDeps.stage"
Ending = SpanEnd | SpanError

_TIDIED_EVERY = 16


class Aggregator:
    """The figures of a timeline so far."""

    def __init__(self, irregular: Problems) -> None:
        self.irregular = irregular
        self.events = 0
        self.untimed = 0
        """Ends of spans that do not tell how long it took, nor does anything else."""
        self.errors = 0
        self.marks = 0
        self.unknown: Counter[str] = Counter()
        """Events by types that the contract does not have."""
        self.processes: dict[int | None, Process] = {}
        self.spans: dict[str, SpanTally] = {}
        self.slowest: Slowest[tuple[Line, float]] = Slowest(MOST_SLOWEST)
        """The slowest spans, each with what none of the spans inside it took."""
        self.stalls = StallTally()
        self.providers = ProviderTally()
        self.children = ChildTally()
        self.plugins = PluginTally()
        self._records: list[Record] = []
        self._number = 0
        self._startup_spans = 0
        self._calls = 0
        self._rare: dict[type[Line], Callable[[Process, Any], None]] = {
            Mark: self._mark,
            LoopSample: self._sample,
            ChildExit: self._child,
            Unknown: self._unknown,
        }

    def take(self, records: list[Record], number: int) -> None:
        """The next records, of consecutive lines; `number` is that of the first one."""
        self._records, self._number = records, number
        self.events += len(records)
        self._take(records)
        self._records = []  # the memory of one block is used again by the next, while it is in the cache
        self._calls += 1
        if self._calls % _TIDIED_EVERY == 0:
            self._tidy()

    def _take(self, records: list[Record]) -> None:
        spans, slowest = self.spans, self.slowest
        shortest_cause, floor = self.stalls.shortest_cause, slowest.floor
        process = self._process(records[0])
        pid, taken = records[0].pid, 0
        open_spans, inside, open_turns, last = process.open, process.inside, process.open_turns, process.last
        for record in records:
            if record.pid != pid:
                process.last = last
                process.events += taken
                process = self._process(record)
                pid, taken = record.pid, 0
                open_spans, inside, open_turns, last = process.open, process.inside, process.open_turns, process.last
            taken += 1
            if type(record) is SpanStart:
                moment = record.timestamp
                if moment < last:
                    self._set_back(process, record, last)
                last = moment
                name = record.name
                if open_spans.setdefault(record.span_id or name, record) is not record:
                    self._reopened(process, record)
                if record.phase == TURN_PHASE or name == TURN_NAME:
                    process.turns.span_started(record, open_spans)
            elif type(record) is SpanEnd or type(record) is SpanError:
                moment = record.timestamp
                if moment < last:
                    self._set_back(process, record, last)
                last = moment
                name, duration, parent = record.name, record.duration_ms, record.parent_span_id
                key = record.span_id or name
                started = open_spans.pop(key, None)
                if started is None or duration is None:
                    record = self._repaired(process, record, started)
                    duration = record.duration_ms
                    if duration is None:
                        self._untimed(record)
                        continue
                try:
                    span = spans[name]
                except KeyError:
                    span = self._new_name(name)
                span.pending.append(duration)
                own = duration
                if key in inside:
                    own -= min(duration, taken_inside(inside.pop(key)))
                    span.covered += duration - own
                if parent is not None:
                    around = inside.get(parent)
                    if around is not None:
                        # One whose start was written down with its end began earlier.
                        began = moment if started is None else started.timestamp
                        if began < around[-2] or began == moment:
                            around[OVERLAPPING] = True
                        around += moment, duration
                    elif parent in open_spans:
                        inside[parent] = [False, 0.0, moment, duration]
                if duration >= floor:
                    slowest.offer(duration, (moment, pid or 0, name, key), (record, own))
                    floor = slowest.floor
                if duration >= shortest_cause or open_turns:
                    process.closed.append(record)
                    if key in open_turns:
                        process.turns.span_ended(record, key, process.closed)
                        if process.working is None:
                            process.worked(_began(record))
                if span.meaning is not None or process.young or type(record) is SpanError:
                    self._special(process, span, record)
            elif type(record) is ProviderCall:
                if record.timestamp > last:
                    last = record.timestamp
                self._request(process, record)
            else:
                if record.timestamp < last:
                    self._set_back(process, record, last)
                last = record.timestamp
                self._rare[type(record)](process, record)
        process.last = last
        process.events += taken

    def finish(self) -> None:
        """There are no more records."""
        self._tidy()
        for process in self.processes.values():
            process.turns.finish(process.open, process.latest.timestamp() * 1000)

    def by_type(self) -> dict[str, int]:
        """How many events of each type there were."""
        ends = self.untimed + sum(span.figures().number for span in self.spans.values())
        counts = {
            "childProcess.exit": self.children.count,
            "eventLoop.sample": self.stalls.samples,
            "mark": self.marks,
            "provider.request": self.providers.durations.figures().number,
            "span.end": ends - self.errors,
            "span.error": self.errors,
            **self.unknown,
        }
        counts["span.start"] = self.events - sum(counts.values())
        return {name: count for name, count in sorted(counts.items()) if count}

    def _note(self, record: Record, kind: str, what: str | None = None) -> None:
        """Something is odd about a record."""
        self.irregular.note(self._line_of(record), kind, what)

    def _line_of(self, record: Line) -> int:
        """Where a record stands, or the one that it is the repaired form of."""
        for place, other in enumerate(self._records):
            if other is record:
                return self._number + place
        return self._number + next(place for place, other in enumerate(self._records) if _is_same(other, record))

    def _process(self, record: Record) -> Process:
        process = self.processes.get(record.pid)
        if process is None:
            full = len(self.processes) >= MOST_PROCESSES
            if full:
                self._note(record, "too_many_processes")
            process = self.processes.setdefault(None if full else record.pid, Process(record))
        return process

    def _set_back(self, process: Process, record: Record, last: datetime) -> None:
        """A line is older than the one before it in its process."""
        self._note(record, "out_of_order")
        process.reached = max(process.reached, last)

    def _new_name(self, name: str) -> SpanTally:
        if len(self.spans) >= MOST_NAMES:
            name = OTHER_NAMES
        meaning: Meaning | None = "staging" if name == STAGING else "preparation" if name in PREPARING else None
        return self.spans.setdefault(name, SpanTally(meaning))

    def _reopened(self, process: Process, record: SpanStart) -> None:
        """A start of what had not ended: the first one is as lost as one that is still open."""
        self._note(record, "start_repeated")
        key = record.span_id or record.name
        process.open[key] = record
        process.inside.pop(key, None)

    def _untimed(self, record: Ending) -> None:
        self.untimed += 1
        self.errors += type(record) is SpanError

    def _repaired(self, process: Process, record: Ending, started: SpanStart | None) -> Ending:
        """The end of a span that is not told as it should be, with a duration if there is any."""
        if started is None:
            if process.evicted:
                process.evicted -= 1
            else:
                self._note(record, "end_without_start")
        if record.duration_ms is not None or started is None:
            return record
        measured = max(0.0, round(moment_ms(record) - moment_ms(started), 3))
        return msgspec.structs.replace(record, duration_ms=measured)

    def _special(self, process: Process, span: SpanTally, record: Ending) -> None:
        """A span that failed, means more than the time it took, or comes early in the life of its process."""
        if type(record) is SpanError:
            self.errors += 1
            span.failed += 1
        if span.meaning == "staging":
            self.plugins.staged(record)
        if process.young:
            process.guess(record.name)
            if process.starting and is_startup(record, working=process.working is not None):
                self._started_up(process, record)
                return
        if span.meaning == "preparation":
            process.worked(_began(record))
            if record.parent_span_id not in process.open:
                process.turns.step_ended(closed_span(record))

    def _started_up(self, process: Process, record: Ending) -> None:
        process.startup.append(record)
        self._startup_spans += 1
        duration = record.duration_ms or 0.0
        if duration >= process.longest_step:
            process.longest_step, process.longest_line = duration, self._line_of(record)
        if record.name == READY:
            process.ready = record.timestamp
        full = self._startup_spans >= MOST_STARTUP_SPANS_IN_ALL
        process.starting = not full and len(process.startup) < MOST_STARTUP_SPANS

    def _mark(self, process: Process, record: Mark) -> None:
        self.marks += 1
        if process.young:
            process.guess(record.name)
            if process.starting and is_startup(record, working=False):
                process.born = min(process.born, _began(record))
                if record.name == READY:
                    process.ready, process.starting = record.timestamp, False
        self.plugins.marked(record)
        process.turns.marked(record)

    def _sample(self, process: Process, record: LoopSample) -> None:
        self.stalls.sampled(process, record, self._line_of)

    def _request(self, process: Process, record: ProviderCall) -> None:
        self.providers.took(record, self._line_of)
        process.turns.request_ended(record)
        if process.working is None:
            process.worked(record.timestamp)

    def _child(self, process: Process, record: ChildExit) -> None:
        self.children.ended(record, self._line_of)

    def _unknown(self, process: Process, record: Unknown) -> None:
        known = record.type in self.unknown or len(self.unknown) < MOST_NAMES
        self.unknown[record.type if known else OTHER_NAMES] += 1

    def _tidy(self) -> None:
        for span in (*self.spans.values(), self.providers.durations):
            span.fold()
        open_spans = 0
        for process in self.processes.values():
            process.tidy()
            open_spans += len(process.open)
        if open_spans > MOST_OPEN:
            max(self.processes.values(), key=lambda process: len(process.open)).evict()


def _is_same(record: Line, other: Line) -> bool:
    same = record.timestamp == other.timestamp and record.span_id == other.span_id and record.name == other.name
    return same and type(record) is type(other) and record.pid == other.pid


def _began(record: Line) -> datetime:
    """When it began that ended there."""
    return earlier(record.timestamp, record.duration_ms or 0.0)
