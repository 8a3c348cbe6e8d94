"""Timing of one agent run from the recorder's events, in bounded memory however long it lasts."""

from __future__ import annotations

from critiqor.model.event import Event
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.pairing import Pairing
from critiqor.spans.span import Span
from critiqor.timeline.slowest import Slowest
from critiqor.timeline.turns.splits import Interval, Splitter

MAX_RECENT = 1024
"""Model calls and tool calls that are kept one by one until they are added up."""
MAX_LONGEST = 256
"""The longest of them, which are kept for the tree."""


class RecordedTurn:
    """One agent run as the recorder saw it; times are milliseconds since 1970."""

    __slots__ = (
        "_longest",
        "_recent",
        "_splitter",
        "end",
        "failed_requests",
        "requests",
        "run",
        "run_id",
        "start",
        "tools",
    )

    def __init__(self, run: AgentRun, run_id: str, moment: float) -> None:
        self.run = run
        self.run_id = run_id
        self.start = moment
        self.end = moment
        self.requests = 0
        self.failed_requests = 0
        self.tools = 0
        self._longest: Slowest[Interval] | None = None
        """The longest of older calls, if there were too many to keep."""
        self._splitter: Splitter | None = None
        """The sum of older calls, if there were too many to keep."""
        self._recent: list[Interval] = []

    @property
    def has_ended(self) -> bool:
        """Whether its last attempt ended."""
        return self.run.ended_us is not None

    @property
    def kept_calls(self) -> int:
        """Number of calls that are kept one by one."""
        return len(self._recent)

    @property
    def duration(self) -> float:
        """Milliseconds from its first to its last event."""
        return self.end - self.start

    def add(self, pairing: Pairing[str], event: Event, moment: float) -> None:
        """Add what one event did to the spans of this agent run."""
        self.run = pairing.run
        if moment > self.end:
            self.end = moment
        elif moment < self.start:
            self.start = moment
        if (span := pairing.opened) is not None:
            span.data = event.tool_name or "a tool"
        elif (span := pairing.closed) is not None:
            self._add_span(
                span, moment, event.tool_name or "a tool", failed=event.status == "error", reported=event.duration_ms
            )

    def cut(self, pairing: Pairing[str], last: float) -> None:
        """Add open calls: they lasted until this agent run was superseded, or until `last`.

        Calls left open by an agent run that ended are not added: when they were aborted is not known.
        """
        for span in pairing.cut:
            if span.end_us is None:
                self._add_span(span, last, "a tool", failed=True)
            elif span.end_us != self.run.ended_us:
                self._add_span(span, span.end_us / 1000, "a tool", failed=True)

    def splitter(self, others: list[Interval]) -> Splitter:
        """Return the sum of all calls and of `others`, which the timeline knows."""
        splitter = self._splitter or Splitter()
        splitter.add([*self._recent, *others])
        return splitter

    def longest(self) -> list[Interval]:
        """Return the longest calls, the longest first."""
        slowest: Slowest[Interval] = Slowest(MAX_LONGEST)
        _offer(slowest, self._longest.items() if self._longest is not None else [])
        _offer(slowest, self._recent)
        return slowest.items()

    def _add_span(
        self, span: Span[str], end: float, default_label: str, *, failed: bool, reported: float | None = None
    ) -> None:
        """Add an ended call; what it reported as its duration is the duration that all outputs show."""
        start = span.start_us / 1000
        if span.kind == "model":
            self.requests += 1
            self.failed_requests += failed
            self._add_interval(Interval(start, end, "provider", "a request", failed))
        elif span.kind == "tool":
            self.tools += 1
            if reported is not None and 0 <= reported <= end - start:
                start = end - reported
            self._add_interval(Interval(start, end, "tool", span.data or default_label, failed))

    def _add_interval(self, interval: Interval) -> None:
        if interval.start < self.start:
            self.start = interval.start
        if interval.end > self.end:
            self.end = interval.end
        self._recent.append(interval)
        if len(self._recent) >= MAX_RECENT:
            self._add_up()

    def _add_up(self) -> None:
        """Add up the older half of the calls; a call that ended after it loses the part within it."""
        self._recent.sort(key=lambda interval: interval.end)
        older = len(self._recent) // 2
        self._splitter = self._splitter or Splitter()
        self._splitter.add(self._recent[:older])
        self._longest = self._longest or Slowest(MAX_LONGEST)
        _offer(self._longest, self._recent[:older])
        del self._recent[:older]


def _offer(slowest: Slowest[Interval], intervals: list[Interval]) -> None:
    for interval in intervals:
        duration = interval.end - interval.start
        if duration >= slowest.floor:
            slowest.offer(duration, (interval.start, interval.label), interval)
