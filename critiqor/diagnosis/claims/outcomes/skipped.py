"""Calls that succeeded for some of the items only, and say how many they left out."""

from __future__ import annotations

import re

import msgspec

from critiqor.diagnosis.claims.episode import Episode, EpisodeCall
from critiqor.diagnosis.results import Meaning

RULE = "skipped"
"""The rule of the meaning of such a call."""
_COUNT = re.compile(
    r'\b(?:skipped|left[_ ]out|omitted|excluded)[_a-z]{0,8}"?\s{0,2}[:=]\s{0,2}(\d{1,7})\b'
    r"|\b(\d{1,7}) (?:[a-z]{2,12} ){0,2}(?:were |was )?(?:skipped|left out|omitted)\b",
    re.IGNORECASE,
)
_LINE = re.compile(
    r"^\W{0,4}skip(?:ped|ping)?\b[:\]]? {1,4}(?:file |row |item )?([\w@][^\s:,]{2,100})", re.IGNORECASE | re.MULTILINE
)
_AS_WANTED = re.compile(
    r"already|unchanged|duplicat|exist|up.to.date|no.change|identical|cached|not.modified|nothing.to|by.request|filter",
    re.IGNORECASE,
)
"""Why an item that is left out is no loss."""
_SIGNS = ("skip", "Skip", "SKIP", "left out", "left_out", "omitted", "excluded")
_MAX_ITEMS = 50


def calls_with_skipped_items(episode: Episode) -> list[EpisodeCall]:
    """Return the calls with an effect that left out items, with that as their meaning."""
    found = []
    for call in episode.calls:
        if not call.has_effect or call.is_check or not any(sign in call.text for sign in _SIGNS):
            continue
        if call.meaning.state not in ("success", "unknown"):
            continue
        meaning = _meaning(call)
        if meaning is not None and not _AS_WANTED.search(call.text):
            found.append(msgspec.structs.replace(call, known_meaning=meaning))
    return found


def _meaning(call: EpisodeCall) -> Meaning | None:
    """Return how many items a call left out, and which; None if it left out none."""
    counts = [match for match in _COUNT.finditer(call.text) if int(match[1] or match[2])]
    items = tuple(match[1].rstrip(".…") for match in _LINE.finditer(call.text))[:_MAX_ITEMS]
    if not counts and not items:
        return None
    number = int(counts[-1][1] or counts[-1][2]) if counts else len(items)
    passed = call.meaning.passed
    quote = counts[-1][0] if counts else items[0]
    return Meaning("failure", f"{number} skipped", quote, call.text.find(quote), RULE, number, passed, None, items)
