"""Values of claims that are not in the part of a recording that is kept: they are looked up in all of it, once."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from critiqor.diagnosis.collections.fingerprints import canonical_json
from critiqor.diagnosis.drafts.draft import Draft
from critiqor.model import Claim, Event, EventType

MAX_LOOKUPS = 64
"""Maximum number of values of a recording that are looked up."""
_SOURCES = frozenset((EventType.TOOL_CALL, EventType.TOOL_OUTPUT, EventType.MEMORY, "input"))
"""Events with what was seen or given; the agent's own messages are no source."""


class Lookup(msgspec.Struct, kw_only=True):
    """A value that an agent states, and what follows if nothing contains it."""

    value: str
    place: int
    """Position of its claim in the list of claims."""
    draft: Draft | None
    """The finding if no event contains it; None if parts of the recording are missing, so that it may be there."""
    found: str | None = None
    """The first event that contains it."""


class Lookups:
    """The values to look up in a second pass over the events."""

    def __init__(self) -> None:
        self._lookups: list[Lookup] = []

    def add(self, value: str, place: int, draft: Draft | None) -> None:
        """Add a value; beyond a number of them, they stay undecided."""
        if len(self._lookups) < MAX_LOOKUPS:
            self._lookups.append(Lookup(value=value.lower(), place=place, draft=draft))

    @property
    def values(self) -> frozenset[str]:
        """The values, in lower case."""
        return frozenset(lookup.value for lookup in self._lookups)

    def search(self, events: Iterable[Event], claims: list[Claim]) -> list[Draft]:
        """Look all values up in events, and decide their claims. Return the findings of those that appear nowhere."""
        for event in events:
            if event.event_type in _SOURCES:
                text = canonical_json(event.payload).lower()
                for lookup in self._lookups:
                    is_before = event.event_id < claims[lookup.place].event_id
                    if lookup.found is None and is_before and lookup.value in text:
                        lookup.found = event.event_id
        drafts = []
        for lookup in self._lookups:
            claim = claims[lookup.place]
            if lookup.found is not None:
                claims[lookup.place] = msgspec.structs.replace(
                    claim, status="supported", reason="it was recorded", evidence=[lookup.found]
                )
            elif lookup.draft is not None:
                reason = f"{claim.text} appears in no argument or output"
                claims[lookup.place] = msgspec.structs.replace(claim, status="unsupported", reason=reason)
                drafts.append(lookup.draft)
        self._lookups = []
        return drafts
