"""What the timeline of a run and the events of its recording tell together about its timing."""

from __future__ import annotations

from pathlib import Path

import msgspec

from critiqor.model import Event
from critiqor.model.timeline import TimelineSummary
from critiqor.timeline.reader.reading import read_timeline
from critiqor.timeline.supervision import Supervision
from critiqor.timeline.turns.attribution import Attribution

NOT_SEALED = "the evidence was sealed without it"


class Timing:
    """Reads the timeline, or its first `limit` bytes, sees the events of the recording in order, then tells of both."""

    def __init__(self, timeline: Path | None, limit: int | None = None) -> None:
        self._summary = TimelineSummary(present=False, unavailable=NOT_SEALED)
        if timeline is not None:
            self._summary = read_timeline(timeline, limit)
        self._attribution = Attribution(self._summary.turns)
        self._supervision = Supervision()

    def observe(self, event: Event) -> None:
        """Take in one event."""
        self._attribution.observe(event)
        self._supervision.observe(event)

    def told(self) -> TimelineSummary:
        """The summary of the timeline with all that the events add to it."""
        turns = self._attribution.turns()
        total = max(self._summary.turns_total, self._attribution.total)
        return self._supervision.told(msgspec.structs.replace(self._summary, turns=turns, turns_total=total))
