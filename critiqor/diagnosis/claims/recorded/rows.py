"""A number against the row that a sentence names: it belongs to another row, or is not first in the ranking."""

from __future__ import annotations

from typing import NamedTuple

from critiqor.diagnosis.claims.arithmetic import tolerance
from critiqor.diagnosis.claims.evidence import Evidence
from critiqor.diagnosis.claims.recorded.counterpart import Counterparts, states
from critiqor.diagnosis.claims.recorded.derivations import Derivations
from critiqor.diagnosis.claims.recorded.facts import Fact
from critiqor.diagnosis.claims.speech import Speech, Stance
from critiqor.diagnosis.claims.values import Value

MIN_DIGITS = 2
"""Minimum number of digits of a number that is traced to its row."""
MIN_RANKED, MAX_RANKED = 3, 40
"""Numbers of rows of a table whose ranking is checked."""


class OtherRow(NamedTuple):
    """The number that a sentence should have given, and the one that it is mixed up with."""

    own: Fact
    other: Fact


def row_of_other(evidence: Evidence, counterparts: Counterparts, stance: Stance, value: Value) -> OtherRow | None:
    """Return the number of the row that a clause names, if the claimed one belongs to another row of the column."""
    if not evidence.is_readable or len(value.digits) < MIN_DIGITS or not evidence.is_in_rows(value):
        return None
    place = counterparts.place(stance, value)
    if not place.records or not (place.is_row or counterparts.names_one(stance, value)):
        return None
    named = evidence.directory.of(place.records)
    if not named or any(states(value, fact) for fact in named):
        return None
    columns = {fact.series: fact for fact in named if fact.is_structured}
    others = [fact for fact in evidence.facts if fact.series in columns and states(value, fact)]
    if not others or evidence.is_stated_apart(value, others[0].call):
        return None
    own = Derivations(named)
    if any(own.has_amount(number, tolerance(number, decimals)) for number, decimals in value.readings):
        return None
    return OtherRow(columns[others[0].series], others[0])


def wrong_rank(
    evidence: Evidence, counterparts: Counterparts, speech: Speech, stance: Stance, value: Value
) -> Fact | None:
    """Return the first of a ranking, if a statement says so of a number that is neither the first nor the last.

    A table with a column of classes may have been filtered by it, and so may one of which the request or the answer
    names a condition: then nothing can be said.
    """
    if not speech.has(stance, "superlatives") or stance.is_plan or stance.is_uncertain or not evidence.is_readable:
        return None
    if not evidence.is_complete or stance.statement.cells or _is_filtered(evidence, speech, value):
        return None
    place = counterparts.place(stance, value)
    named = [fact for fact in evidence.directory.of(place.records) if fact.is_structured and states(value, fact)]
    if len(named) != 1:
        return None
    column = [fact for fact in evidence.facts if fact.series == named[0].series and fact.call is named[0].call]
    numbers = sorted(fact.number for fact in column)
    if not MIN_RANKED <= len(numbers) <= MAX_RANKED or len({fact.record for fact in column}) < len(column):
        return None
    if named[0].number in (numbers[0], numbers[-1]) or _has_classes(column):
        return None
    first, last = max(column, key=_number), min(column, key=_number)
    # A text that has named one of the ends compares the others with it.
    before = speech.lowered[: stance.statement.end]
    return None if any(name in before for end in (first, last) for name in end.names[:1]) else first


def _is_filtered(evidence: Evidence, speech: Speech, value: Value) -> bool:
    """Return whether the request, or what else the text says, limits what is compared."""
    asked = evidence.episode.speech(evidence.episode.requests[-1]) if evidence.episode.requests else None
    return asked is None or any(one.kind == "number" for one in asked.values) or asked.mentions("limits")


def _has_classes(column: list[Fact]) -> bool:
    """Return whether rows share a text, so that it is a class of them."""
    texts = [name for fact in column for name in fact.names]
    return len(set(texts)) < len(texts)


def _number(fact: Fact) -> float:
    return fact.number
