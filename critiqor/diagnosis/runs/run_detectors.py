"""The detectors of one agent run: created when they are needed, fed with its spans, and asked for findings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from critiqor.diagnosis.detector import Need, RunDetector
from critiqor.diagnosis.detectors.context_pollution import ContextPollution
from critiqor.diagnosis.detectors.cost_explosion import CostExplosion
from critiqor.diagnosis.drafts.draft import Draft
from critiqor.diagnosis.drafts.explained_drafts import without_explained
from critiqor.diagnosis.runs.span_cursor import SpanCursor
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import Moment, RunSpan, ToolCall

MAX_SPANS = 1024
"""Spans of an agent run that are kept. Once there are more, those that the detectors have observed are dropped, and a
tool call that returns after half as many others is judged without its result."""

Observer = Callable[[Any], None]


class RunDetectors:
    """The detectors of one agent run. A detector is created once the agent run has a span that it needs."""

    def __init__(self, run: AgentRun, kinds: Sequence[type[RunDetector[Any]]]) -> None:
        self._run = run
        self._kinds = kinds
        self._is_long = False
        """Whether spans were dropped: from then on, all detectors exist and none can start again."""
        self._restart()

    def _restart(self) -> None:
        self._cursor = SpanCursor(self._run)
        self._detectors: dict[type[RunDetector[Any]], RunDetector[Any]] = {}
        """In the order in which they are asked for findings."""
        self._observers: dict[type, list[Observer]] = {}
        self._seen: set[Need] = set()

    def findings(self, *, is_over: bool = False) -> list[Draft]:
        """Return the findings for the spans so far. If the recording has ended, no spans are held back."""
        cursor = self._cursor
        settled = len(self._run.spans) if is_over else cursor.complete if self._is_long else cursor.settled
        if not self._is_long and (cursor.is_stale or cursor.next > settled):
            self._restart()
        self._pass_on(settled)
        cost = self._detectors.get(CostExplosion)
        drafts = without_explained(
            [
                draft
                for detector in self._detectors.values()
                if detector is not cost and not self._seen.isdisjoint(detector.NEEDS)
                for draft in detector.findings()
            ]
        )
        if not isinstance(cost, CostExplosion):
            return drafts
        context = self._detectors.get(ContextPollution)
        giants = context.giants if isinstance(context, ContextPollution) else []
        return [*drafts, *cost.findings_beside(drafts, giants)]

    def shorten(self) -> list[RunSpan]:
        """Pass on the spans that are complete, or have waited for too long, and return all that can be dropped."""
        if not self._is_long:
            self._restart()
            self._is_long = True
            self._create_detectors(0)
        cursor = self._cursor
        self._pass_on(max(cursor.complete, len(self._run.spans) - MAX_SPANS // 2))
        return self._run.spans[: cursor.forget()]

    def settle(self) -> None:
        """Pass on the spans of a long agent run that has just ended: no result is awaited any more."""
        last = self._run.spans[-1] if self._run.spans else None
        if isinstance(last, Moment) and last.event_type == "agent_end":
            self._pass_on(self._cursor.complete)

    def _pass_on(self, until: int) -> None:
        cursor = self._cursor
        past = cursor.next
        spans = cursor.advance(until)
        if cursor.seen != self._seen:
            self._seen = cursor.seen.copy()
            if not self._is_long:
                self._create_detectors(past)
        observers = self._observers
        for span in spans:
            for observe in observers.get(type(span), ()):
                observe(span)

    def _create_detectors(self, past: int) -> None:
        """Create the detectors that are needed by now, and pass them the spans that the others have observed."""
        known = self._detectors
        needed = [kind for kind in self._kinds if self._is_long or not self._seen.isdisjoint(kind.NEEDS)]
        self._detectors = {kind: known.get(kind) or kind(self._run) for kind in needed}
        for kind, detector in self._detectors.items():
            if kind in known:
                continue
            for span in self._run.spans[:past] if past else ():
                if isinstance(span, kind.OBSERVES) and not (isinstance(span, ToolCall) and span.wraps):
                    detector.observe(span)
            for observed in kind.OBSERVES:
                self._observers.setdefault(observed, []).append(detector.observe)
