"""Lookups of a series, such as one file per month, of which one failed: what it would have shown is missing."""

from __future__ import annotations

import re
from collections import defaultdict

import msgspec

from critiqor.diagnosis.claims.episode import Episode, EpisodeCall
from critiqor.diagnosis.results import Meaning
from critiqor.spans.calls import Kind

RULE = "series"
"""The rule of the meaning of such a call."""
MIN_SERIES = 3
"""Minimum number of lookups that differ by numbers only."""
_NUMBER = re.compile(r"\d+")
_EXIT = re.compile(r"\s*\(?Command exited with code [1-9]\d*\)?\s*")


def calls_missing_in_series(episode: Episode) -> list[EpisodeCall]:
    """Return the lookups that failed, or printed nothing, while the others of their series showed something."""
    if len(episode.calls) < MIN_SERIES:
        return []
    series: dict[tuple[str, str], list[EpisodeCall]] = defaultdict(list)
    for call in episode.calls:
        if _is_lookup(call) and (form := _NUMBER.sub("#", call.arguments)) != call.arguments:
            series[call.tool, form].append(call)
    return [call for calls in series.values() if len(calls) >= MIN_SERIES for call in _missing(calls)]


def _is_lookup(call: EpisodeCall) -> bool:
    return call.kind is Kind.LOOKUP or (bool(call.line) and not call.is_check)


def _missing(calls: list[EpisodeCall]) -> list[EpisodeCall]:
    # The same lookup can be repeated: its last result counts.
    last = {call.arguments: call for call in calls}
    results = list(last.values())
    # What is empty at the end is the end: the page after the last one.
    empty = [call for call in results[:-1] if _is_empty(call)]
    if not empty or len(results) < MIN_SERIES or len(empty) * 2 >= len(results) or _is_empty(results[-1]):
        return []
    quote = [call.text.strip().partition("\n")[0][:120] for call in empty]
    return [
        msgspec.structs.replace(call, known_meaning=Meaning("failure", "it showed nothing", said, rule=RULE))
        for call, said in zip(empty, quote, strict=True)
    ]


def _is_empty(call: EpisodeCall) -> bool:
    """Return whether a lookup failed, or printed nothing."""
    if call.reported_failure and len(call.text) < MAX_ERROR:
        return True
    return not call.text.strip() or _EXIT.fullmatch(call.text) is not None


MAX_ERROR = 400
"""Maximum number of characters of an output that is nothing but an error."""
