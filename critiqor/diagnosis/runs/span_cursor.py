"""A place in the spans of an agent run: which of them were passed to the detectors."""

from __future__ import annotations

from critiqor.diagnosis.detector import Need
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import Kind, Moment, RunSpan, ToolCall

MAX_HELD = 64
"""Maximum number of spans that a tool call without a result holds back."""


class SpanCursor:
    """Iterates over the spans of one agent run in order of start, each once it is complete.

    A tool call without a result holds back all spans that started after it, because detectors compare calls in the
    order in which the agent made them. It is passed on without a result when the agent run ends or when `MAX_HELD`
    spans have followed. If its result arrives later, the cursor is stale, and the spans must be read again from the
    start.
    """

    __slots__ = ("_ended", "_open", "_scanned", "next", "run", "seen")

    def __init__(self, run: AgentRun) -> None:
        self.run = run
        self.next = 0
        """Number of spans that were passed on."""
        self._scanned = 0
        self._ended = 0
        """Number of spans up to the last end of the agent run."""
        self._open: list[ToolCall] = []
        """Tool calls that were passed on without a result."""
        self.seen: set[Need] = set()
        """Needs of detectors that are met by the spans passed on so far."""

    @property
    def settled(self) -> int:
        """Number of spans that can be passed on."""
        return self._first_open(max(self._last_end(), len(self.run.spans) - MAX_HELD))

    @property
    def complete(self) -> int:
        """Number of spans that can be passed on for good: up to the first tool call that has no result yet.

        An end of the agent run completes all spans before it.
        """
        return self._first_open(max(self._last_end(), self.next))

    def _last_end(self) -> int:
        spans = self.run.spans
        for number in range(self._scanned, len(spans)):
            span = spans[number]
            if isinstance(span, Moment) and span.event_type == "agent_end":
                self._ended = number + 1
        self._scanned = len(spans)
        return self._ended

    def _first_open(self, start: int) -> int:
        spans = self.run.spans
        for number in range(start, len(spans)):
            span = spans[number]
            if isinstance(span, ToolCall) and span.result is None and not span.wraps:
                return number
        return len(spans)

    @property
    def is_stale(self) -> bool:
        """Whether a tool call has changed since it was passed on without a result."""
        return any(call.result is not None or call.wraps for call in self._open)

    def advance(self, until: int) -> list[RunSpan]:
        """Return the spans before index `until` that were not passed on yet, without calls that only wrap others."""
        spans: list[RunSpan] = []
        seen = self.seen
        for span in self.run.spans[self.next : until]:
            if type(span) is not ToolCall:
                seen.add(type(span))
            elif span.wraps:
                continue
            else:
                seen.add(ToolCall)
                if span.has_failed:
                    seen.add("failed call")
                if span.kind is Kind.ACTION:
                    seen.add("action")
                if span.result is None:
                    self._open.append(span)
            spans.append(span)
        self.next = until
        return spans

    def forget(self) -> int:
        """Note that the agent run drops the spans that were passed on; return how many. They stay as they were."""
        count, self.next = self.next, 0
        self._scanned = max(0, self._scanned - count)
        self._ended = max(0, self._ended - count)
        self._open.clear()
        return count
