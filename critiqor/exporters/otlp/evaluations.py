"""Findings and the verdict as span events: each finding at its first event, the verdict at the end."""

from __future__ import annotations

from critiqor.exporters.otlp import attributes as otel
from critiqor.exporters.otlp.attributes import EVALUATION
from critiqor.exporters.otlp.span import SpanEvent
from critiqor.model.diagnosis import Finding
from critiqor.model.event import place_of
from critiqor.model.report import Recorded
from critiqor.model.timestamps import us_of


class Evaluations:
    """Findings whose first event has not been seen yet."""

    def __init__(self, recorded: Recorded) -> None:
        self._recorded = recorded
        self._waiting: dict[str, list[Finding]] = {}
        for finding in recorded.diagnosis.failure_analysis.findings if recorded.diagnosis is not None else ():
            self._waiting.setdefault(finding.first_event, []).append(finding)

    def started_at(self, event_id: str, at_us: int) -> list[SpanEvent]:
        """Remove and return the findings that started with this event."""
        return [self._span_event(finding, at_us) for finding in self._waiting.pop(event_id, ())]

    def remaining(self, start_us: int, end_us: int) -> list[SpanEvent]:
        """Return the findings whose event was not seen, at `start_us` if they have no time, and the verdict."""
        events = [
            self._span_event(finding, self._time_us(finding, start_us))
            for findings in self._waiting.values()
            for finding in findings
        ]
        diagnosis = self._recorded.diagnosis
        if diagnosis is not None:
            events.append(SpanEvent(EVALUATION, end_us, otel.verdict_attributes(diagnosis, self._recorded)))
        return events

    def _span_event(self, finding: Finding, at_us: int) -> SpanEvent:
        return SpanEvent(EVALUATION, at_us, otel.finding_attributes(finding, self._recorded))

    def _time_us(self, finding: Finding, default_us: int) -> int:
        event_id = finding.first_event
        place = place_of(event_id)
        return self._recorded.moments.get(event_id, us_of(place.milliseconds) if place is not None else default_us)
