"""The timing of a run: its timeline together with its recorded events."""

from __future__ import annotations

from pathlib import Path

import msgspec

from critiqor.model.event import Event, EventType
from critiqor.model.resources import ResourceUsage
from critiqor.model.timeline import TimelineSummary
from critiqor.timeline.summary import read_timeline
from critiqor.timeline.turns.attribution import Attribution

NOT_SEALED = "the evidence was sealed without a timeline"
RESOURCE_USAGE = "resource_usage"


class Timing:
    """Combines a timeline, or its first `limit` bytes, with the events of the recording, observed in order."""

    def __init__(self, timeline: Path | None, limit: int | None = None) -> None:
        self._summary = TimelineSummary(present=False, unavailable=NOT_SEALED)
        if timeline is not None:
            self._summary = read_timeline(timeline, limit)
        self._attribution = Attribution(self._summary.turns)
        self._supervision = _Supervision()

    def observe(self, event: Event) -> None:
        """Process one event of the recording."""
        self._attribution.observe(event)
        if event.source_layer == "supervisor":
            self._supervision.observe(event)

    def summary(self) -> TimelineSummary:
        """Return the summary of the timeline, completed with what the events add to it."""
        turns = self._attribution.turns()
        total = max(self._summary.turns_total, self._attribution.total)
        return self._supervision.complete(msgspec.structs.replace(self._summary, turns=turns, turns_total=total))


class _Supervision:
    """Facts from the supervisor: whether the run was profiled, its resource usage, why a timeline is missing."""

    def __init__(self) -> None:
        self._was_launched = False
        self._was_imported = False
        self._was_disabled = False
        self._is_profiled = False
        self._resources: ResourceUsage | None = None

    def observe(self, event: Event) -> None:
        if event.event_type == EventType.PROCESS_START:
            self._was_launched = True
            self._is_profiled = event.payload.get("deep_profile") is True
            self._was_disabled = event.payload.get("timeline") is False
        elif event.event_type == EventType.RUN_IMPORTED:
            self._was_imported = True
        elif event.event_type == RESOURCE_USAGE:
            try:
                self._resources = msgspec.convert(event.payload, ResourceUsage)
            except msgspec.ValidationError:
                self._resources = None

    def complete(self, summary: TimelineSummary) -> TimelineSummary:
        return msgspec.structs.replace(
            summary,
            profiled=self._is_profiled,
            resources=self._resources,
            unavailable=summary.unavailable if summary.present else self._reason(summary.unavailable),
        )

    def _reason(self, found: str | None) -> str | None:
        if self._was_imported:
            return "the run was recorded elsewhere and imported"
        if self._was_disabled:
            return "it was recorded with --no-timeline"
        if not self._was_launched:
            return "the run was not launched by critiqor monitor"
        return found
