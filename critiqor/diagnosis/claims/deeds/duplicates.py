"""The same deed was done twice, as its results or a later list show, and the agent reports one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations, pairwise
from typing import Any

import msgspec

from critiqor.diagnosis.claims.call_arguments import named_values
from critiqor.diagnosis.claims.checked import CheckedClaim
from critiqor.diagnosis.claims.deeds.unsupported import unsupported
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall
from critiqor.diagnosis.signals.repetition import orders_repetition, tells_repetition
from critiqor.diagnosis.signals.text import decode_json

MIN_SAME = 2
"""Minimum number of equal cells of two rows that are copies of each other."""
MIN_NAME = 3
"""Minimum number of characters of an identifier."""
MAX_ROWS = 60
MAX_CELLS = 40
DAY = 86_400
_NUMBER = re.compile(r"\S*\d\S*")
"""Amounts and identifiers, whose digits are no number of times."""
_CHARACTER = re.compile(r"\d|[a-z]")
_CODE = re.compile(r'"(?=[^"]*[a-z])(?=[^"]*\d)([\w-]{3,40})"')
"""A text of letters and digits: what an entry is called."""
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_CLOCK = re.compile(r"\d{1,2}:\d\d(?::\d\d)?$")
_STAMP = re.compile(r"1\d{9}(?:\d{3})?(?:\.\d+)?$")
"""A time in seconds since 1970."""

Row = list[tuple[str, str]]
"""The values of a record or a line, each with its name or place."""


def check_duplicates(episode: Episode) -> list[CheckedClaim]:
    """Return the claim of a deed that was done twice."""
    answer = episode.answer
    repeated = _repeated(episode) if answer is not None else {}
    if answer is None or not repeated or orders_repetition(episode.request):
        return []
    if tells_repetition(_NUMBER.sub(" ", answer.text)):
        return []
    lowered = answer.text.lower()
    for calls in repeated.values():
        copies, shown = _copies(episode, calls)
        # Whoever names both does not hide one.
        if not copies or all(any(name in lowered for name in names) for names in copies):
            continue
        if any(_takes_back(each, copies) for each in episode.calls if each.order > calls[-1].order):
            continue
        stances = episode.speech(answer).stances
        stance = next((one for one in stances if one.is_good_news), stances[0] if stances else None)
        if stance is not None:
            reason = f"{shown.name} shows that it was done twice ({copies[0][0]} and {copies[1][0]})"
            return [unsupported(answer, stance, "duplicate", reason=reason, kind="action", calls=(calls[-1], shown))]
    return []


def _repeated(episode: Episode) -> dict[tuple[str, str], list[EpisodeCall]]:
    """Return the calls with an effect that were made again with the same arguments, and worked at last."""
    found: dict[tuple[str, str], list[EpisodeCall]] = {}
    for call in episode.calls:
        if call.has_effect and not call.line:
            found.setdefault((call.tool, call.arguments), []).append(call)
    return {key: calls for key, calls in found.items() if len(calls) > 1 and calls[-1].meaning.state != "failure"}


def _copies(episode: Episode, calls: list[EpisodeCall]) -> tuple[list[list[str]], EpisodeCall]:
    """Return the identifiers of two copies of what the calls made, and the call that shows them."""
    last = calls[-1]
    worked = [call for call in calls if call.meaning.state != "failure" and call.text[:1] == "{"]
    for one, other in pairwise(worked):
        names = [pair for pair in zip(_codes(one.lowered), _codes(other.lowered), strict=False) if pair[0] != pair[1]]
        said = episode.answer.text.lower() if episode.answer is not None else ""
        # Each result has a code of its own. After other work, only who speaks of one of them means one.
        works = any(each.has_effect and one.order < each.order < other.order for each in episode.calls)
        named = sum(name in said for name in names[0]) if names else 0
        if names and _form(names[0][0]) == _form(names[0][1]) and (named == 1 or not works):
            return [[name] for name in names[0]], last
    for look in (each for each in episode.calls if each.order > last.order and not each.has_effect):
        for one_row, other_row in combinations(list(_rows(look.text))[:MAX_ROWS], 2):
            found = _differences(one_row, other_row)
            # Of two copies in a list, the result of the call names one.
            if found and any(name in last.lowered for each in found for name in each):
                return found, look
    return [], last


def _codes(text: str) -> list[str]:
    return _CODE.findall(text)


def _rows(text: str) -> Iterator[Row]:
    """Yield the records of a JSON answer, or the lines of another one."""
    if text[:1] in ("[", "{"):
        try:
            yield from _records(decode_json(text))
        except msgspec.DecodeError:
            return
    else:
        for line in text.splitlines()[:MAX_ROWS]:
            yield [(str(place), word) for place, word in enumerate(line.split()[:MAX_CELLS])]


def _records(value: Any) -> Iterator[Row]:
    if isinstance(value, list):
        for each in value[:MAX_ROWS]:
            yield from _records(each)
    elif isinstance(value, dict):
        inner = [
            each for each in value.values() if isinstance(each, list) and any(isinstance(one, dict) for one in each)
        ]
        for each in inner:
            yield from _records(each)
        if not inner:
            floats = [(name, str(each)) for name, each in value.items() if isinstance(each, float)]
            yield [*named_values(value), *floats][:MAX_CELLS]


def _differences(one: Row, other: Row) -> list[list[str]]:
    """Return the identifiers in which two copies differ; nothing if they differ in more than identifiers and times."""
    if len(one) != len(other) or [name for name, _ in one] != [name for name, _ in other]:
        return []
    pairs = [(left.lower(), right.lower()) for (_, left), (_, right) in zip(one, other, strict=True) if left != right]
    if not pairs or len(one) - len(pairs) < MIN_SAME or not all(_is_own(*pair) for pair in pairs):
        return []
    names = [pair for pair in pairs if not _is_time(pair[0])]
    # A copy has one name of its own; two messages can differ in their time only.
    if len(names) > 1 or any(len(left) < MIN_NAME for left, _ in names):
        return []
    return [[left for left, _ in names or pairs], [right for _, right in names or pairs]]


def _is_own(left: str, right: str) -> bool:
    """Return whether each of two copies has a value of its own: numbers or codes of one form, or times of one day."""
    if _STAMP.fullmatch(left) and _STAMP.fullmatch(right):
        return abs(float(left) - float(right)) < DAY
    if left[:10] != right[:10] and _DATE.match(left):
        return False
    return any(map(str.isdigit, left + right)) and _form(left) == _form(right)


def _form(text: str) -> str:
    return _CHARACTER.sub("0", text)


def _is_time(value: str) -> bool:
    return any(form.match(value) for form in (_DATE, _STAMP, _CLOCK))


def _takes_back(call: EpisodeCall, copies: list[list[str]]) -> bool:
    lowered = call.arguments.lower()
    return call.has_effect and any(
        f'"{name}"' in lowered or f":{name}" in lowered for names in copies for name in names
    )
