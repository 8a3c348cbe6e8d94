"""What later lookups show of the things that a call was about: a lock that is jammed, a light that does not answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from critiqor.diagnosis.claims.destinations.records import arguments_of
from critiqor.diagnosis.claims.episode import EpisodeCall
from critiqor.diagnosis.results.meaning import ResultState
from critiqor.diagnosis.results.state_words import state_of_word

MIN_NAME = 4
"""Minimum number of characters of an argument that identifies a thing."""
MAX_DEPTH = 4
_STATES = ("state", "status")


class ThingState(NamedTuple):
    """The state of a thing in an output."""

    name: str
    state: ResultState
    """What the state says; `unknown` for a word that says neither."""
    quote: str


def shown_state(call: EpisodeCall, look: EpisodeCall) -> ThingState | None:
    """Return the worst state that a lookup shows of the things that the arguments of a call name; None without one."""
    if look.text[:1] not in "[{":
        return None
    names = {value for _, value in arguments_of(call) if len(value) >= MIN_NAME and not value.isdigit()}
    if not any(name in look.text for name in names):
        return None
    try:
        value = msgspec.json.decode(look.text)
    except msgspec.DecodeError:
        return None
    found = [state for record in _records(value, 0) if (state := _state(record, names))]
    return max(found, key=lambda one: one.state == "failure", default=None)


def _records(value: Any, depth: int) -> Iterator[dict[str, Any]]:
    if depth > MAX_DEPTH:
        return
    if isinstance(value, dict):
        yield value
    members = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for member in members:
        if isinstance(member, dict | list):
            yield from _records(member, depth + 1)


def _state(record: dict[str, Any], names: set[str]) -> ThingState | None:
    name = next((value for value in record.values() if isinstance(value, str) and value in names), None)
    for key in _STATES:
        said = record.get(key)
        if name is not None and isinstance(said, str) and said not in names:
            return ThingState(name, state_of_word(said) or "unknown", f'"{key}": "{said}"')
    return None
