"""State of one process that writes to a timeline: open spans, role, start-up and turns."""

from __future__ import annotations

from collections import deque
from datetime import datetime

from critiqor.model.timeline import OpenSpan, Role, TimelineProcess
from critiqor.model.timestamps import iso_from_datetime
from critiqor.timeline.reader.records import Line, SpanStart, moment_ms
from critiqor.timeline.spans import ENDS, Inside, closed_span, covered_by_inner_spans, detail_of
from critiqor.timeline.turns.timeline_turns import TurnTracker

MAX_CLOSED = 128
"""Spans remembered after their end, to find what blocked the event loop and what a turn consisted of."""
MAX_INSIDE = 256
"""Spans inside an open span that are remembered one by one; older ones are added up."""
MAX_GUESSES = 500
"""Number of spans and marks after which the start-up counts as finished and the role as known."""
_AGENT_WORDS = frozenset(("agent", "reply", "auto_reply"))
_COMMAND_WORDS = frozenset(("cli", "entry"))


class ProcessState:
    """One process: its open spans, its turns and its start-up."""

    __slots__ = (
        "_guesses",
        "born",
        "closed",
        "events",
        "evicted",
        "first",
        "inside",
        "is_starting",
        "is_young",
        "last",
        "last_sample",
        "longest_startup_line",
        "longest_startup_ms",
        "open",
        "open_turns",
        "pid",
        "reached",
        "ready_at",
        "role",
        "startup",
        "turns",
        "working_since",
    )

    def __init__(self, first: Line) -> None:
        self.pid = first.pid
        self.first: datetime = first.timestamp
        self.last: datetime = first.timestamp
        """Timestamp of its previous line."""
        self.reached: datetime = first.timestamp
        """The latest timestamp before the clock was set back."""
        self.events = 0
        self.open: dict[str, SpanStart] = {}
        self.inside: dict[str, Inside] = {}
        """By open span: the spans that have ended inside it."""
        self.evicted = 0
        """Open spans that were dropped because there were too many."""
        self.closed: deque[Line] = deque(maxlen=MAX_CLOSED)
        self.last_sample: datetime = first.timestamp
        """When the event loop last reported a delay."""
        self.is_starting = True
        self.startup: list[Line] = []
        self.longest_startup_ms = 0.0
        """Duration of the longest span of the start-up."""
        self.longest_startup_line = 0
        """Line number of that span."""
        self.born: datetime = first.timestamp
        """When the start-up began, which can be before the first line."""
        self.ready_at: datetime | None = None
        self.working_since: datetime | None = None
        """When it first did something other than starting up."""
        self.turns = TurnTracker()
        self.open_turns = self.turns.open
        self.role: Role = "unknown"
        self._guesses = 0
        self.is_young = True
        """Whether it may still be starting up, so that its role is not settled."""

    @property
    def latest(self) -> datetime:
        """The latest timestamp of its lines."""
        return max(self.last, self.reached)

    def guess_role(self, name: str) -> None:
        """Infer the role of the process from the name of a span or a mark."""
        word = name.partition(".")[0]
        if word == "gateway":
            self.role = "gateway"
        elif word in _AGENT_WORDS and self.role != "gateway":
            self.role = "agent"
        elif word in _COMMAND_WORDS and self.role == "unknown":
            self.role = "command"
        self._guesses += 1
        if self._guesses > MAX_GUESSES:
            self.is_starting = self.is_young = False

    def mark_working(self, moment: datetime) -> None:
        """Note that the process was doing its actual work at this moment."""
        if self.working_since is None or moment < self.working_since:
            self.working_since = moment
        if self.role != "gateway":
            self.role = "agent"
            self.is_starting = False

    def compact(self) -> None:
        """Add up the spans inside very long open spans, to bound the memory."""
        for inside in self.inside.values():
            if len(inside) > ENDS + 2 * MAX_INSIDE:
                inside[:] = [False, covered_by_inner_spans(inside), inside[-2], 0.0]

    def evict_open_spans(self) -> None:
        """Drop the older half of the open spans."""
        for key in list(self.open)[: len(self.open) // 2 + 1]:
            del self.open[key]
            self.inside.pop(key, None)
            self.open_turns.pop(key, None)
            self.evicted += 1

    def find_blocking_spans(self, earliest: datetime, latest: datetime, shortest: float) -> list[str]:
        """Return the names of the innermost spans that lasted at least `shortest` ms between two moments."""
        since, until = earliest.timestamp() * 1000, latest.timestamp() * 1000
        long = [record for record in self.closed if (record.duration_ms or 0.0) >= shortest]
        ended = [closed_span(record) for record in long if record.timestamp >= earliest]
        known = [(span.start, span.end, span.name) for span in ended]
        known += [(moment_ms(record), until, record.name) for record in self.open.values()]
        innermost = []
        inner_end = float("inf")
        # Latest start first: a span that ends after a later-started one contains it.
        for start, end, name in sorted(known, key=lambda span: (-span[0], span[1])):
            if min(end, until) - max(start, since) >= shortest and end < inner_end:
                innermost.append(name)
                inner_end = end
        return sorted(set(innermost))

    def summary(self) -> TimelineProcess:
        return TimelineProcess(
            pid=self.pid,
            role=self.role,
            first_at=iso_from_datetime(self.first),
            last_at=iso_from_datetime(self.latest),
            events=self.events,
            open_spans=len(self.open) + self.evicted,
        )

    def open_spans(self, end: datetime) -> list[OpenSpan]:
        """Return the spans that had not ended; `end` is the last timestamp of the whole timeline."""
        return [
            OpenSpan(
                name=record.name,
                detail=detail_of(record),
                started_at=iso_from_datetime(record.timestamp),
                age_ms=_elapsed_ms(record.timestamp, self.latest),
                silent_ms=_elapsed_ms(self.latest, end),
                pid=self.pid,
            )
            for record in self.open.values()
        ]


def _elapsed_ms(start: datetime, end: datetime) -> float:
    return round(max(0.0, (end - start).total_seconds() * 1000), 3)
