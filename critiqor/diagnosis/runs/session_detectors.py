"""The detectors of one session: they observe its agent runs one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from critiqor.diagnosis.detector import SessionDetector
from critiqor.diagnosis.drafts.draft import Draft
from critiqor.diagnosis.runs.span_cursor import SpanCursor
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import RunSpan, ToolCall

Observer = Callable[[Any], None]


class _Fed:
    """Detectors, and what has to be called for each kind of span."""

    def __init__(self, detectors: list[SessionDetector[Any]]) -> None:
        self.detectors = detectors
        self._observers: dict[type, list[Observer]] = {}
        for detector in detectors:
            for observed in detector.OBSERVES:
                self._observers.setdefault(observed, []).append(detector.observe)

    def begin_run(self, run: AgentRun) -> None:
        for detector in self.detectors:
            detector.begin_run(run)

    def observe(self, spans: Sequence[RunSpan]) -> None:
        observers = self._observers
        for span in spans:
            for observe in observers.get(type(span), ()):
                observe(span)

    def findings(self) -> list[Draft]:
        return [draft for detector in self.detectors for draft in detector.findings()]


class SessionDetectors:
    """The detectors of one session.

    Agent runs that are over were observed for good, in order of start, and their spans are gone. The others are
    observed on top of that, by copies of the detectors, and again from there if what was observed has changed.
    """

    def __init__(self, kinds: Sequence[type[SessionDetector[Any]]]) -> None:
        self.runs: list[AgentRun] = []
        """The agent runs that share a history and are not over, in order of start."""
        self._kinds = kinds
        self._past: _Fed | None = None
        """Detectors that have observed the agent runs that are over; None if there are none."""
        self._last: AgentRun | None = None
        """The last agent run of which they have observed something."""
        self._is_needed = False
        """Whether one of them can have findings."""
        self._restart([])

    def _restart(self, detectors: list[SessionDetector[Any]]) -> None:
        self._cursors: list[SpanCursor] = []
        self._fed = _Fed(detectors)

    def conclude(self, run: AgentRun, spans: Sequence[RunSpan], *, is_over: bool) -> None:
        """Observe an agent run, or the next part of it, for good: the first one that is not over."""
        if self._past is None:
            self._past = _Fed([kind() for kind in self._kinds])
        self._is_needed = bool(self._needed([run]))
        if self._last is not run:
            self._past.begin_run(run)
            self._last = run
        self._past.observe([span for span in spans if not (isinstance(span, ToolCall) and span.wraps)])
        if is_over:
            self.runs.remove(run)
        self._restart([])

    def _needed(self, runs: list[AgentRun]) -> Sequence[type[SessionDetector[Any]]]:
        """Return the detectors that can have findings: all of them once agent runs are over, if one can."""
        if self._is_needed:
            return self._kinds
        before = [] if self._last is None or self._last in runs else [self._last]
        needed = [kind for kind in self._kinds if kind.is_needed([*before, *runs])]
        return self._kinds if needed and self._past is not None else needed

    def findings(self, *, is_over: bool = False) -> list[Draft]:
        """Return the findings for the spans so far."""
        past, runs = self._past, self.runs
        needed = self._needed(runs)
        if not needed:
            return []
        if past is not None and not runs:
            return past.findings()
        cursors = self._cursors
        last = None if is_over else (cursors[-1] if len(cursors) == len(runs) else SpanCursor(runs[-1]))
        settled = last.settled if last is not None else len(runs[-1].spans)
        # Agent runs can overlap: new spans of an earlier agent run must be observed before those of the next one.
        late = any(cursor.next != len(cursor.run.spans) for cursor in cursors[:-1])
        fed = cursors[-1].next if len(cursors) == len(runs) else 0
        is_new = [type(detector) for detector in self._fed.detectors] != list(needed)
        if is_new or late or fed > settled or any(cursor.is_stale for cursor in cursors):
            self._restart([kind() for kind in needed] if past is None else [each.fork() for each in past.detectors])
        for number in range(max(0, len(self._cursors) - 1), len(runs)):
            self._pass_on(number, settled if number == len(runs) - 1 else len(runs[number].spans))
        return self._fed.findings()

    def _pass_on(self, number: int, until: int) -> None:
        run = self.runs[number]
        if number == len(self._cursors):
            self._cursors.append(SpanCursor(run))
            if run is not self._last:
                self._fed.begin_run(run)
        self._fed.observe(self._cursors[number].advance(until))
