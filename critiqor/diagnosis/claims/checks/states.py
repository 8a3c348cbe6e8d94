"""A thing is reported in a state that excludes the one in which it was last seen: locked, but it was unlocked."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec

from critiqor.diagnosis.claims.call_arguments import decoded_arguments
from critiqor.diagnosis.claims.checked import CheckedClaim, Problem, claim_on
from critiqor.diagnosis.claims.checks.failures import TYPE
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall, EpisodeText
from critiqor.diagnosis.claims.language import FOLDER
from critiqor.diagnosis.claims.speech import Speech, Stance
from critiqor.diagnosis.claims.vocabulary import Vocabulary
from critiqor.diagnosis.results.json_answers import decoded
from critiqor.diagnosis.results.json_items import item_name
from critiqor.diagnosis.results.state_words import name_of, normal_state, state_words
from critiqor.model.sanitize import excerpt, sanitize_line

MAX_RECORDS = 200
"""Maximum number of things of an answer whose states are compared."""
MAX_DEPTH = 4
MIN_NAME = 4
"""Minimum number of letters of a name that a statement does not contain by chance."""
_WORDS = re.compile(r"[^\W\d_]+|\d+")
_FRIENDLY = ("friendly_name", "display_name", "label", "title", "name")


class _Pair(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Two states that exclude each other."""

    first: frozenset[str]
    second: frozenset[str]
    says_first: list[str]
    says_second: list[str]


class _Seen(msgspec.Struct, frozen=True):
    """A thing in a state, as a look showed it."""

    call: EpisodeCall
    names: tuple[frozenset[str], ...]
    """The words of each of its names."""
    title: str
    state: str

    def is_named_in(self, lowered: str) -> bool:
        """Return whether a text names it; a name in a script without spaces is part of a longer word."""
        words = set(_WORDS.findall(lowered))
        if any(name <= words for name in self.names):
            return True
        return not self.title.isascii() and self.title.lower() in lowered


@cache
def _pairs() -> dict[str, _Pair]:
    document = tomllib.loads((FOLDER / "states.toml").read_text("utf-8"))
    return msgspec.convert(document, dict[str, _Pair])


@cache
def _vocabulary() -> Vocabulary:
    lists = {f"{name}.first": pair.says_first for name, pair in _pairs().items()}
    return Vocabulary(lists | {f"{name}.second": pair.says_second for name, pair in _pairs().items()})


@cache
def _sides() -> dict[str, list[tuple[str, str]]]:
    """Return for each state the pairs it belongs to, with the side that excludes it."""
    found: dict[str, list[tuple[str, str]]] = {}
    for name, pair in _pairs().items():
        for state in pair.first:
            found.setdefault(state, []).append((f"{name}.first", f"{name}.second"))
        for state in pair.second:
            found.setdefault(state, []).append((f"{name}.second", f"{name}.first"))
    return found


def check_states(episode: Episode) -> list[CheckedClaim]:
    """Return the first claim that contradicts the last state in which a look showed the thing."""
    answer = episode.answer
    seen = list(_last_seen(episode)) if answer is not None else []
    if answer is None or not seen:
        return []
    speech = episode.speech(answer)
    for stance in speech.stances:
        if stance.is_good_news and not stance.is_limited and not stance.is_uncertain:
            for one in seen:
                if (clause := _contradicting(speech, stance, one)) is not None:
                    return [_checked(answer, clause, one)]
    return []


def _last_seen(episode: Episode) -> Iterator[_Seen]:
    """Yield the things whose last known state was shown by a look, and that nothing has changed since."""
    known: dict[frozenset[str], _Seen] = {}
    for call in episode.calls:
        if call.line:
            continue
        if call.has_effect and known:
            words = frozenset(_WORDS.findall(f"{call.arguments} {call.text[:2000]}".lower()))
            known = {name: one for name, one in known.items() if not name <= words}
        elif not call.has_effect and call.text[:1] in ("{", "["):
            given = decoded_arguments(call.arguments) or {}
            for record in _records(decoded(call.text), 0):
                if (one := _seen(call, record, given)) is not None:
                    known[one.names[0]] = one
    yield from known.values()


def _records(value: Any, depth: int) -> Iterator[dict[str, Any]]:
    if depth > MAX_DEPTH:
        return
    if isinstance(value, list):
        for item in value[:MAX_RECORDS]:
            yield from _records(item, depth + 1)
    elif isinstance(value, dict):
        yield value
        for member in value.values():
            if isinstance(member, dict | list):
                yield from _records(member, depth + 1)


def _seen(call: EpisodeCall, record: dict[str, Any], given: dict[str, Any]) -> _Seen | None:
    members = state_words().lists["state_members"]
    state = next((value for key, value in record.items() if isinstance(value, str) and name_of(key) in members), None)
    if state is None or normal_state(state) not in _sides():
        return None
    attributes = record.get("attributes")
    described = {**attributes, **record} if isinstance(attributes, dict) else record
    titles = [item_name(record), *(described[name] for name in _FRIENDLY if isinstance(described.get(name), str))]
    titles += [value for value in given.values() if isinstance(value, str) and value in record.values()]
    names = tuple(words for title in titles if title and (words := _name_words(title)))
    return _Seen(call, names, titles[0] or titles[-1], normal_state(state)) if names else None


def _name_words(title: str) -> frozenset[str]:
    """Return the words of a name, without the domain of an id: `lock.back_door` is the back door."""
    words = frozenset(_WORDS.findall(title.rpartition(".")[2].lower()))
    return words if sum(map(len, words)) >= MIN_NAME else frozenset()


def _contradicting(speech: Speech, stance: Stance, one: _Seen) -> Stance | None:
    """Return the part of a statement that gives a thing a state which excludes the one it was seen in."""
    vocabulary = _vocabulary()
    if not one.is_named_in(stance.lowered):
        return None
    for own, other in _sides()[one.state]:
        if not vocabulary.mentions(other, stance.lowered) or vocabulary.mentions(own, stance.lowered):
            continue
        for clause in speech.clauses(stance):
            is_said = one.is_named_in(clause.lowered) and vocabulary.mentions(other, clause.lowered)
            if is_said and clause.is_good_news and not speech.has(clause, "negations") and not _is_past(speech, clause):
                return clause
    return None


def _is_past(speech: Speech, clause: Stance) -> bool:
    return speech.has(clause, "formerly") or clause.is_plan


def _checked(answer: EpisodeText, clause: Stance, one: _Seen) -> CheckedClaim:
    start, end = claim_on(answer, clause)
    said = excerpt(answer.text[start:end].strip(" .!*_#"), 60)
    title = sanitize_line(one.title)
    return CheckedClaim(
        text=answer,
        start=start,
        end=end,
        kind="action",
        status="contradicted",
        reason=f"{one.call.name} shows {title} as {one.state}",
        calls=[one.call],
        problem=Problem(
            type=TYPE,
            about=(one.call.tool, "state"),
            severity="high",
            confidence=80,
            title=f"Said “{said}”, but {one.call.name} shows {title} as {one.state}",
            explanation=f"The answer says “{said}”. The last recorded state of {title} is {one.state}, and nothing "
            "changed it afterwards.",
            recommendation=f"Have the agent report the state that {one.call.name} shows.",
        ),
    )
