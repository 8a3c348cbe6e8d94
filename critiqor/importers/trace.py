"""What an importer hands over: one run that was recorded elsewhere, and what of it could not be read."""

from __future__ import annotations

import msgspec

from critiqor.model import Event

MOST_PLACES = 5
"""Places that a note names; the others are counted."""
LONGEST_NOTE = 300


class ImportedTrace(msgspec.Struct, frozen=True, kw_only=True):
    """One run that was recorded elsewhere, as events in the form of sealed evidence: in order, redacted and bounded."""

    trace_id: str
    """What the source calls it."""
    format: str
    """In which format it was told; one of `critiqor.importers.FORMATS`."""
    events: list[Event]
    """Empty where nothing of it could be read."""
    notes: list[str]
    """What could not be read or is not told, in sentences."""


class Notes:
    """Collects what could not be read: each kind of trouble once, counted, with the first few places."""

    def __init__(self) -> None:
        self._places: dict[str, list[str]] = {}
        self._counts: dict[str, int] = {}

    def add(self, trouble: str, place: str = "", *, times: int = 1) -> None:
        """`trouble` ends where a count can follow, such as "lines that could not be read"."""
        self._counts[trouble] = self._counts.get(trouble, 0) + times
        places = self._places.setdefault(trouble, [])
        if place and len(places) < MOST_PLACES and place not in places:
            places.append(place)

    def sentences(self) -> list[str]:
        """One sentence for each kind of trouble."""
        return [self._sentence(trouble, count) for trouble, count in self._counts.items()]

    def _sentence(self, trouble: str, count: int) -> str:
        places = self._places[trouble]
        more = ", …" if places and count > len(places) else ""
        told = f"{trouble}: {count}" + (f" ({', '.join(places)}{more})" if places else "")
        return told if len(told) <= LONGEST_NOTE else told[: LONGEST_NOTE - 1] + "…"
