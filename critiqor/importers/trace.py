"""The result of an import: the trace of one run, with notes about what could not be read."""

from __future__ import annotations

import msgspec

from critiqor.model import Coverage, Event


class ImportedTrace(msgspec.Struct, frozen=True, kw_only=True):
    """One run that was recorded elsewhere, as events like those of sealed evidence: ordered, redacted and bounded."""

    trace_id: str
    """Its id in the source."""
    format: str
    """One of `critiqor.importers.FORMATS`."""
    events: list[Event]
    """Empty if nothing could be read."""
    notes: list[str]
    """What could not be read or is unknown, in sentences."""
    not_understood: int = 0
    """Number of entries of the source that were not understood; the notes say which."""
    coverage: Coverage | None = None
    """What Critiqor's recorder saw and missed, if the source is a run of Critiqor."""
