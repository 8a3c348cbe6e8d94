"""What the supervisor of a run knows about its timing: whether it was profiled, what it used, why there is no more."""

from __future__ import annotations

import msgspec

from critiqor.model.event import Event, EventType
from critiqor.model.resources import ResourceUsage
from critiqor.model.timeline import TimelineSummary

RESOURCE_USAGE = "resource_usage"


class Supervision:
    """Gathers it from the events of a run, while somebody else goes through them."""

    def __init__(self) -> None:
        self._started = False
        self._imported = False
        self._unwanted = False
        self._profiled = False
        self._resources: ResourceUsage | None = None

    def observe(self, event: Event) -> None:
        """Take in one event."""
        if event.source_layer != "supervisor":
            return
        if event.event_type == EventType.PROCESS_START:
            self._started = True
            self._profiled = event.payload.get("deep_profile") is True
            self._unwanted = event.payload.get("timeline") is False
        elif event.event_type == EventType.RUN_IMPORTED:
            self._imported = True
        elif event.event_type == RESOURCE_USAGE:
            try:
                self._resources = msgspec.convert(event.payload, ResourceUsage)
            except msgspec.ValidationError:
                self._resources = None

    def told(self, summary: TimelineSummary) -> TimelineSummary:
        """The summary with what is known by now; where OpenClaw wrote nothing, with the reason."""
        return msgspec.structs.replace(
            summary,
            profiled=self._profiled,
            resources=self._resources,
            unavailable=summary.unavailable if summary.present else self._reason(summary.unavailable),
        )

    def _reason(self, found: str | None) -> str | None:
        if self._imported:
            return "the run was recorded elsewhere and imported"
        if self._unwanted:
            return "it was recorded with --no-timeline"
        if not self._started:
            return "the run was not launched by critiqor monitor"
        return found
