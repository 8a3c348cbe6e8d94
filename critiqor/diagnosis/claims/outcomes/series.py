"""Calls of a series, such as one file per month or one message per person: which of them failed, and how it differs."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import NamedTuple

import msgspec

from critiqor.diagnosis.claims.call_arguments import arguments_of
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall
from critiqor.diagnosis.hazards.session_history import linked_cells
from critiqor.diagnosis.results import Meaning
from critiqor.diagnosis.signals.text import tokens
from critiqor.spans.calls import Kind

RULE = "series"
"""The rule of the meaning of such a call."""
MIN_SERIES = 3
"""Minimum number of lookups that differ by numbers only."""
_NUMBER = re.compile(r"\d+")
_EXIT = re.compile(r"\s*\(?Command exited with code [1-9]\d*\)?\s*")
MAX_DIFFERENCES = 2
"""Maximum number of values by which a call differs from its siblings that do the same for other things."""
MIN_NAME = 3
"""Minimum number of characters of a name."""


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


def siblings_of(episode: Episode, call: EpisodeCall) -> list[EpisodeCall]:
    """Return the calls of the same series as a failed call: they did the same for other things, and did not fail."""
    if call.line:
        return []
    return [
        other
        for other in episode.calls
        if other.tool == call.tool and other is not call and not other.line and other.meaning.state != "failure"
    ]


class SiblingNames(NamedTuple):
    """Names, in lower case, by which a failed call and its siblings differ, also those that identifiers stand for."""

    own: set[str]
    others: set[str]


def names_among(episode: Episode, call: EpisodeCall, siblings: list[EpisodeCall]) -> SiblingNames:
    """Return by which names a call differs from the others of its series; none if it differs in many ways."""
    given = {value.lower() for _, value in arguments_of(call)}
    others = {value.lower() for other in siblings for _, value in arguments_of(other)}
    own = given - others
    if not 0 < len(own) <= MAX_DIFFERENCES:
        return SiblingNames(set(), set())
    ours, theirs = (_with_linked(episode, call, values) for values in (own, others - given))
    parts = {word for name in ours for word in tokens(name)} - {word for name in theirs for word in tokens(name)}
    return SiblingNames((ours - theirs) | {word for word in parts if len(word) >= MIN_NAME}, theirs - ours)


def _with_linked(episode: Episode, call: EpisodeCall, values: set[str]) -> set[str]:
    names = values | {cell for value in values for cell in linked_cells(episode, call, value)}
    return {name for name in names if len(name) >= MIN_NAME and any(map(str.isalpha, name))}
