"""The results of a session as places where something was seen first."""

from __future__ import annotations

import re

from critiqor.diagnosis.claims.episode import Episode, EpisodeCall
from critiqor.diagnosis.hazards.hazard import facts_of
from critiqor.diagnosis.hazards.instructions import (
    Passage,
    ReadText,
    is_read_as_is,
    read_text,
    suspicious_passages,
)

_TOKEN = re.compile(r"[a-z0-9_]{2,}")


class Sources:
    """The results of an episode and of the ones before it; they are read when something is first looked for."""

    def __init__(self, episode: Episode) -> None:
        earlier = [call for each in reversed(episode.earlier) for call in each.calls]
        self._calls = [call for call in (*earlier, *episode.calls) if call.text]
        self._searched: list[tuple[EpisodeCall, str | None]] | None = None
        """Each with its text in lower case, if it is read as it is."""
        self._texts: dict[str, ReadText] = {}
        """The texts that were read, by event id of the result. They are large, so they are not kept with the call."""

    def containing(self, wanted: str, before: EpisodeCall) -> list[tuple[EpisodeCall, ReadText]]:
        """Return the results that were known before a call and can be the source of a text in it, in order."""
        found: list[tuple[EpisodeCall, ReadText]] = []
        if self._searched is None:
            self._searched = [(call, call.lowered if _is_read_as_is(call) else None) for call in self._calls]
        for call, lowered in self._searched:
            # Most results are read as they are, and do not contain what is looked for.
            if (lowered is None or wanted in lowered) and call.result_id < before.call_id:
                read = self._read(call)
                if _contains(read, wanted):
                    found.append((call, read))
        return found

    def suspicious(
        self, before: EpisodeCall | None, limit: int, min_signs: int = 2
    ) -> list[tuple[EpisodeCall, Passage]]:
        """Return the passages that instruct an agent in the last results: all, or those known before a call."""
        known = [call for call in self._calls if before is None or call.result_id < before.call_id][-limit:]
        found = ((call, passage) for call in known for passage in self._passages(call))
        return [(call, passage) for call, passage in found if passage.signs + passage.is_comment >= min_signs]

    def _read(self, call: EpisodeCall) -> ReadText:
        read = self._texts.get(call.result_id)
        if read is None:
            read = read_text(call.text, call.lowered, as_is=_is_read_as_is(call))
            self._texts[call.result_id] = read
        return read

    def _passages(self, call: EpisodeCall) -> list[Passage]:
        facts = facts_of(call)
        if not isinstance(facts.passages, list):
            facts.passages = suspicious_passages(self._read(call))
        return facts.passages


def _is_read_as_is(call: EpisodeCall) -> bool:
    facts = facts_of(call)
    if facts.is_read_as_is is None:
        facts.is_read_as_is = is_read_as_is(call.text)
    return facts.is_read_as_is


def _contains(read: ReadText, wanted: str) -> bool:
    """Return whether a result contains a text, and all words of it as whole words."""
    encoded = [plain.lower() for _, _, plain in read.encoded]
    if wanted not in read.lowered and not any(wanted in " ".join(plain.split()) for plain in encoded):
        return False
    missing = set(_TOKEN.findall(wanted))
    for text in (read.lowered, *encoded):
        missing -= set(_TOKEN.findall(text)) if missing else set()
    return not missing
