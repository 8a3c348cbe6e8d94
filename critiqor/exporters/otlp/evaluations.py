"""What was concluded from a run, as events of its spans: each finding where it began to go wrong, and the verdict."""

from __future__ import annotations

from critiqor.exporters.findings import first_step
from critiqor.exporters.otlp import conventions
from critiqor.exporters.otlp.conventions import EVALUATION
from critiqor.exporters.otlp.span import SpanEvent
from critiqor.model.diagnosis import Finding
from critiqor.model.event import place_of
from critiqor.model.report import Recorded
from critiqor.model.trace import us_of


class Evaluations:
    """Findings that wait for the event where they began."""

    def __init__(self, recorded: Recorded) -> None:
        self._recorded = recorded
        self._waiting: dict[str, list[Finding]] = {}
        for finding in recorded.diagnosis.failure_analysis.findings if recorded.diagnosis is not None else ():
            self._waiting.setdefault(first_step(finding), []).append(finding)

    def begun_at(self, event_id: str, at: int) -> list[SpanEvent]:
        """Those that began with this event; each is told once."""
        return [self._told(finding, at) for finding in self._waiting.pop(event_id, ())]

    def left(self, start: int, end: int) -> list[SpanEvent]:
        """Those whose event never came, from `start` on, and the verdict at the end."""
        told = [self._told(each, self._moment_of(each, start)) for found in self._waiting.values() for each in found]
        diagnosis = self._recorded.diagnosis
        if diagnosis is not None:
            told.append(SpanEvent(EVALUATION, end, conventions.verdict_attributes(diagnosis, self._recorded)))
        return told

    def _told(self, finding: Finding, at: int) -> SpanEvent:
        return SpanEvent(EVALUATION, at, conventions.finding_attributes(finding, self._recorded))

    def _moment_of(self, finding: Finding, otherwise: int) -> int:
        step = first_step(finding)
        place = place_of(step)
        return self._recorded.moments.get(step, us_of(place.milliseconds) if place is not None else otherwise)
