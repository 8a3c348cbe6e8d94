"""A call seemed to fail, was repeated, and a list shows that both had an effect; the agent reports one."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from critiqor.diagnosis.claims.checked import CheckedClaim
from critiqor.diagnosis.claims.deeds.unsupported import unsupported
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall
from critiqor.diagnosis.signals.repetition import tells_repetition
from critiqor.diagnosis.signals.text import decode_json

MIN_SAME = 2
"""Minimum number of equal members of two records that are copies of each other."""
_OWN = re.compile(
    r"^_?(?:id|uuid|key|ref|number|no|code|url|link|etag|hash|sha|seq|index)$|(?:id|number|_no|ref|key|url|uuid)$"
    r"|time|date|created|updated|modified|_at$|^at$|^ts$|utc",
    re.IGNORECASE,
)
"""Members in which two copies differ: identifiers and times."""
_NUMBER = re.compile(r"\S*\d\S*")
"""Amounts and identifiers, whose digits are no number of times."""


def check_duplicates(episode: Episode) -> list[CheckedClaim]:
    """Return the claim of a deed that a list shows twice."""
    answer = episode.answer
    repeated = _repeated(episode)
    if answer is None or not repeated or tells_repetition(_NUMBER.sub(" ", answer.text)):
        return []
    for call in repeated:
        later = [each for each in episode.calls if each.order > call.order]
        for look in later:
            copy = _copy(look, call) if not look.has_effect else None
            if copy is None or any(_takes_back(each, copy) for each in later):
                continue
            speech = episode.speech(answer)
            if any(name.lower() in speech.lowered for name in copy):
                continue
            stance = next((one for one in speech.stances if one.is_good_news), None)
            if stance is not None:
                reason = f"{look.name} shows a second one ({copy[0]})"
                return [unsupported(answer, stance, "duplicate", reason=reason, kind="action", calls=(call, look))]
    return []


def _repeated(episode: Episode) -> list[EpisodeCall]:
    """Return the calls with an effect that worked after the same call had failed."""
    failed: set[tuple[str, str]] = set()
    found = []
    for call in episode.calls:
        if not call.has_effect or call.line:
            continue
        if call.meaning.state == "failure":
            failed.add((call.tool, call.arguments))
        elif (call.tool, call.arguments) in failed:
            found.append(call)
    return found


def _copy(look: EpisodeCall, call: EpisodeCall) -> list[str] | None:
    """Return the identifiers of a record that equals the one that a call made; None if a list shows no such record."""
    records = _records(look.text)
    made = [record for record in records if any(f'"{name}"' in call.text for name in _identifiers(record))]
    for record in made:
        for other in records:
            if other is not record and other not in made and _is_copy(record, other):
                return _identifiers(other)
    return None


def _records(text: str) -> list[dict[str, Any]]:
    if text[:1] not in ("[", "{"):
        return []
    try:
        value = decode_json(text)
    except msgspec.DecodeError:
        return []
    lists = [value] if isinstance(value, list) else [each for each in value.values() if isinstance(each, list)]
    return [record for each in lists for record in each if isinstance(record, dict)]


def _identifiers(record: dict[str, Any]) -> list[str]:
    """Return the identifiers of a record: short values with a digit."""
    return [
        value
        for name, value in record.items()
        if isinstance(value, str) and _OWN.search(name) and any(map(str.isdigit, value)) and ":" not in value
    ]


def _is_copy(one: dict[str, Any], other: dict[str, Any]) -> bool:
    same = [name for name in one if not _OWN.search(name)]
    return (
        one.keys() == other.keys()
        and len(same) >= MIN_SAME
        and all(one[name] == other[name] for name in same)
        and _identifiers(one) != _identifiers(other)
    )


def _takes_back(call: EpisodeCall, names: list[str]) -> bool:
    return call.has_effect and any(f'"{name}"' in call.arguments for name in names)
