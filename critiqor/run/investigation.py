"""From the events of a run and its timeline to the diagnosis: each event is looked at once by everybody."""

from __future__ import annotations

from pathlib import Path

from critiqor.diagnosis import Diagnoser
from critiqor.model import Coverage, Diagnosis, Event, iso_from_ms, now_ms
from critiqor.timeline import Timing


class Investigation:
    """Sees every event of a run once, then concludes. Of the timeline it knows the bytes that are sealed."""

    def __init__(self, timeline: Path | None = None, sealed_bytes: int | None = None) -> None:
        self._examination = Diagnoser()
        self._account = Timing(timeline if sealed_bytes is not None else None, sealed_bytes)

    def observe(self, event: Event) -> None:
        """Take in one event, in order."""
        self._examination.observe(event)
        self._account.observe(event)

    def conclude(self, run_id: str, digest: str, coverage: Coverage) -> Diagnosis:
        """The diagnosis of everything observed."""
        return self._examination.conclude(run_id, digest, coverage, iso_from_ms(now_ms()), self._account.summary())
