"""What is remembered of each process that writes to a timeline."""

from __future__ import annotations

from collections import deque
from datetime import datetime
from typing import Any

from critiqor.model.event import iso_from_ms
from critiqor.model.timeline import OpenSpan, Role, TimelineProcess
from critiqor.timeline.reader.records import Line, SpanStart, detail_of, moment_ms
from critiqor.timeline.spans import closed_span, covered
from critiqor.timeline.turns.timeline_turns import Turns

MOST_CLOSED = 128
"""Spans remembered after their end, to tell what held the event loop and what a turn consisted of."""
MOST_INSIDE = 256
"""Spans inside an open one that are remembered; older ones are added up."""
SETTLES_AFTER = 500
"""Spans and marks after which a process has long started, and its role is no longer in question."""
_AGENT_WORDS = frozenset(("agent", "reply", "auto_reply"))
_COMMAND_WORDS = frozenset(("cli", "entry"))


Inside = list[Any]
"""What is inside an open span: whether any of it overlaps, what older ones took, and then of each later one its end and
its duration. A list, because many are made."""
OVERLAPPING, TAKEN, ENDS = range(3)


def taken_inside(inside: Inside) -> float:
    """Milliseconds that the spans inside an open span took together, each moment once."""
    durations: list[float] = inside[ENDS + 1 :: 2]
    taken: float = inside[TAKEN]
    if not inside[OVERLAPPING]:
        return taken + sum(durations)
    ends = [moment.timestamp() * 1000 for moment in inside[ENDS::2]]
    return taken + covered((end - duration, end) for end, duration in zip(ends, durations, strict=True))


class Process:
    """One process: its open spans, its turns, how it came up."""

    __slots__ = (
        "_guesses",
        "born",
        "closed",
        "events",
        "evicted",
        "first",
        "inside",
        "last",
        "longest_line",
        "longest_step",
        "looped",
        "open",
        "open_turns",
        "pid",
        "reached",
        "ready",
        "role",
        "starting",
        "startup",
        "turns",
        "working",
        "young",
    )

    def __init__(self, first: Line) -> None:
        self.pid = first.pid
        self.first: datetime = first.timestamp
        self.last: datetime = first.timestamp
        """When the line before this one was written."""
        self.reached: datetime = first.timestamp
        """The latest moment before the clock was set back."""
        self.events = 0
        self.open: dict[str, SpanStart] = {}
        self.inside: dict[str, Inside] = {}
        """What has ended inside of open spans."""
        self.evicted = 0
        """Open spans that were too many to remember."""
        self.closed: deque[Line] = deque(maxlen=MOST_CLOSED)
        self.looped: datetime = first.timestamp
        """When the event loop was last known to turn."""
        self.starting = True
        self.startup: list[Line] = []
        self.longest_step = 0.0
        """Of the start-up, in milliseconds, and the line that told it."""
        self.longest_line = 0
        self.born: datetime = first.timestamp
        """When the start-up began; it can be before the first line."""
        self.ready: datetime | None = None
        self.working: datetime | None = None
        """When it first did something else than starting up."""
        self.turns = Turns()
        self.open_turns = self.turns.open
        self.role: Role = "unknown"
        self._guesses = 0
        self.young = True
        """Whether it may still be starting up, and its role is in question."""

    @property
    def latest(self) -> datetime:
        """The latest moment that it has told."""
        return max(self.last, self.reached)

    def guess(self, name: str) -> None:
        """Let the name of a span or a mark say what kind of process this is."""
        word = name.partition(".")[0]
        if word == "gateway":
            self.role = "gateway"
        elif word in _AGENT_WORDS and self.role != "gateway":
            self.role = "agent"
        elif word in _COMMAND_WORDS and self.role == "unknown":
            self.role = "command"
        self._guesses += 1
        if self._guesses > SETTLES_AFTER:
            self.starting = self.young = False

    def worked(self, moment: datetime) -> None:
        """It does what it was started for."""
        if self.working is None or moment < self.working:
            self.working = moment
        if self.role != "gateway":
            self.role = "agent"
            self.starting = False

    def tidy(self) -> None:
        """Add up what very long spans have inside, so that it takes no space."""
        for inside in self.inside.values():
            if len(inside) > ENDS + 2 * MOST_INSIDE:
                inside[:] = [False, taken_inside(inside), inside[-2], 0.0]

    def evict(self) -> None:
        """Forget the older half of the open spans."""
        for key in list(self.open)[: len(self.open) // 2 + 1]:
            del self.open[key]
            self.inside.pop(key, None)
            self.open_turns.discard(key)
            self.evicted += 1

    def holding(self, earliest: datetime, latest: datetime, shortest: float) -> list[str]:
        """The names of the innermost spans that went on for at least that long between two moments."""
        since, until = earliest.timestamp() * 1000, latest.timestamp() * 1000
        long = [record for record in self.closed if (record.duration_ms or 0.0) >= shortest]
        ended = [closed_span(record) for record in long if record.timestamp >= earliest]
        known = [(span.start, span.end, span.name) for span in ended]
        known += [(moment_ms(record), until, record.name) for record in self.open.values()]
        innermost = []
        inner_end = float("inf")
        # Those that began last first: a span that ends after one of them did has that one inside.
        for start, end, name in sorted(known, key=lambda span: (-span[0], span[1])):
            if min(end, until) - max(start, since) >= shortest and end < inner_end:
                innermost.append(name)
                inner_end = end
        return sorted(set(innermost))

    def told(self) -> TimelineProcess:
        return TimelineProcess(
            pid=self.pid,
            role=self.role,
            first_at=iso_of(self.first),
            last_at=iso_of(self.latest),
            events=self.events,
            open_spans=len(self.open) + self.evicted,
        )

    def open_spans(self, end: datetime) -> list[OpenSpan]:
        """What had not ended; `end` is that of the whole timeline."""
        return [
            OpenSpan(
                name=record.name,
                detail=detail_of(record),
                started_at=iso_of(record.timestamp),
                age_ms=_between(record.timestamp, self.latest),
                silent_ms=_between(self.latest, end),
                pid=self.pid,
            )
            for record in self.open.values()
        ]


def _between(start: datetime, end: datetime) -> float:
    return round(max(0.0, (end - start).total_seconds() * 1000), 3)


def iso_of(moment: datetime) -> str:
    """UTC, ISO 8601, milliseconds."""
    return iso_from_ms(round(moment.timestamp() * 1000))
