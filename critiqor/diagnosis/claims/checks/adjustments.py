"""A service did something else than a call asked for, as its answer shows, and the agent reports what it had asked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from critiqor.diagnosis.claims.call_arguments import decoded_arguments, named_values
from critiqor.diagnosis.claims.checked import CheckedClaim, Problem
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall, EpisodeText
from critiqor.diagnosis.claims.values import Value, word_numbers
from critiqor.diagnosis.results.json_answers import decoded
from critiqor.model.sanitize import excerpt, quotation

TYPE = "misreported_value"
MAX_CALLS = 60
"""Maximum number of calls that are compared with their answers, the last ones."""
_SEPARATORS = re.compile(r"[_\-.\s]")
_NUMBER = re.compile(r"-?\d{1,12}(?:\.\d{1,6})?")
_OTHER = re.compile(
    r"(?:^|[_\-.])(?:ids?|no|nr|number|version|revision|limit|offset|pages?|cursor|size|timeout|time|date|retry|retries|max|min|port|code|seq"
    r"|index|status|total|count|balance|remaining|available)(?:$|[_\-.])|Id$",
    re.IGNORECASE,
)
"""Names of members that differ for other reasons: an answer has its own ids, times and totals."""


class _Adjustment(NamedTuple):
    call: EpisodeCall
    name: str
    wanted: float
    got: float


def check_adjustments(episode: Episode) -> list[CheckedClaim]:
    """Return claims with the number of a call whose answer has another one in the member of the same name."""
    answer = episode.answer
    if answer is None:
        return []
    claims = []
    for adjusted in _adjustments(episode):
        claim = _claim(episode, answer, adjusted)
        if claim is not None:
            claims.append(claim)
    return claims


def _adjustments(episode: Episode) -> Iterator[_Adjustment]:
    calls = [call for call in episode.calls[-MAX_CALLS:] if not call.line and call.text[:1] == "{"]
    for place, call in enumerate(calls):
        if not call.has_effect or call.meaning.state == "failure":
            continue
        wanted, got = _numbers(decoded_arguments(call.arguments)), _numbers(decoded(call.text))
        for name, number in wanted.items():
            if got.get(name, number) == number or _is_other_unit(number, got[name]):
                continue
            # What a later answer shows is what was reached in the end.
            if not any(_numbers(decoded(later.text)).get(name) == number for later in calls[place + 1 :]):
                yield _Adjustment(call, name, number, got[name])


def _is_other_unit(one: float, other: float) -> bool:
    """Return whether two numbers can be the same in two units: cents, thousandths, seconds and minutes."""
    return any(abs(one * factor - other) < 1e-6 or abs(other * factor - one) < 1e-6 for factor in (60, 100, 1000))


def _numbers(value: object) -> dict[str, float]:
    """Return the numbers in arguments or in an answer by the names of their members, if a name occurs once."""
    found: dict[str, float] = {}
    repeated: set[str] = set()
    for name, text in named_values(value):
        plain = _SEPARATORS.sub("", name).lower()
        if plain in found:
            repeated.add(plain)
        elif plain and not _OTHER.search(name) and _NUMBER.fullmatch(text):
            found[plain] = float(text)
    return {name: number for name, number in found.items() if name not in repeated}


def _claim(episode: Episode, answer: EpisodeText, adjusted: _Adjustment) -> CheckedClaim | None:
    """Return the claim of an answer that has the number that was asked for, and not the one that was reached."""
    speech = episode.speech(answer)
    values = [*speech.values, *word_numbers(speech.text, speech.language)]
    if any(_is(value, adjusted.got) for value in values):
        return None
    said = next((value for value in values if _is(value, adjusted.wanted)), None)
    stance = next(
        (one for one in speech.stances if said and one.statement.start <= said.start < one.statement.end), None
    )
    if said is None or stance is None or stance.is_bad_news or stance.is_question or stance.is_plan:
        return None
    call, wanted, got = adjusted.call, f"{adjusted.wanted:g}", f"{adjusted.got:g}"
    return CheckedClaim(
        text=answer,
        start=said.start,
        end=said.end,
        kind="value",
        status="contradicted",
        reason=f"{call.name} answered {adjusted.name} {got}, not {wanted}",
        calls=[call],
        problem=Problem(
            type=TYPE,
            about=("adjusted",),
            severity="high",
            confidence=75,
            title=f"Reported {excerpt(said.text, 30)}, but {call.name} answered {adjusted.name} {got}",
            explanation=f"The text says {quotation(stance.statement.text, 100)}. The call asked for {adjusted.name} "
            f"{wanted}, and its answer says {got}.",
            recommendation="Have the agent report what the answer of the service says, not what it had asked for.",
        ),
    )


def _is(value: Value, number: float) -> bool:
    return any(abs(reading.number - number) < 1e-9 for reading in value.readings)
