"""The recorded number that a claimed one stands for and differs from."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

from critiqor.diagnosis.claims.arithmetic import tolerance
from critiqor.diagnosis.claims.evidence import Evidence
from critiqor.diagnosis.claims.recorded.derivations import Derivations
from critiqor.diagnosis.claims.recorded.facts import Fact, key_words, near_words, next_word
from critiqor.diagnosis.claims.recorded.record_names import Mention
from critiqor.diagnosis.claims.recorded.slips import is_slip
from critiqor.diagnosis.claims.recorded.units import Unit, is_comparable, unit_at, unit_of_name
from critiqor.diagnosis.claims.speech import Speech, Stance
from critiqor.diagnosis.claims.values import Reading, Value
from critiqor.model import Severity

FEW = 8
"""With at most so many recorded numbers, two digits are enough to recognize one with a slip."""
MANY = 60
"""With more recorded numbers, three digits are not enough."""
MIN_DERIVED_DIGITS = 5
"""Minimum number of digits of a number that hardly follows from recorded ones by chance."""
MIN_LONG = 4
"""Minimum number of digits of a number that is hardly another one by chance, also in a sentence about the future."""
MAX_ROUNDING = 0.005
"""Maximum share by which a number in a text differs from a recorded one that it reports."""
MIN_SHARED = 3
"""Minimum number of counts of which percentages are given."""
MAX_SHARE_ROUNDING = 1.0
"""Percentages are rounded so that they add up to 100."""
MIN_LABELLED_DIGITS = 3
"""Minimum number of digits of a number that is compared with all numbers of its label: a smaller one may be a part."""
MAX_RATIO = 5.0
"""A number that is more times as large as a recorded one is not meant to be that one."""


MAX_BESIDE = 8
"""Maximum number of characters between a number and the name beside it: 3.12% for A."""


class Counterpart(NamedTuple):
    """A recorded number with how certain it is that it was meant."""

    fact: Fact
    severity: Severity


class Place(NamedTuple):
    """Where a claimed number stands: what its sentence or row names."""

    value: Value
    unit: Unit
    keys: frozenset[str]
    """Beginnings of the words around it, or of the head of its column."""
    records: frozenset[int]
    """The records that are named next to it."""
    is_row: bool


class Counterparts:
    """Finds the recorded numbers that the numbers of one text stand for."""

    def __init__(self, evidence: Evidence, speech: Speech, words: Sequence[Value] = ()) -> None:
        self._evidence = evidence
        self._speech = speech
        self._words = words
        """The numbers that are written as words."""
        self._mentions: dict[int, list[Mention]] = {}
        self._headers: dict[int, tuple[str, ...]] | None = None
        self._reported: dict[float, bool] = {}
        """Whether the text reports a recorded number, once that was asked for."""

    def place(self, stance: Stance, value: Value) -> Place:
        """Return where a number stands."""
        text, statement = self._speech.text, stance.statement
        directory = self._evidence.directory
        unit = unit_at(text, value.start, value.end)
        mentions = self._mentions.get(statement.start)
        if mentions is None:
            mentions = self._mentions[statement.start] = directory.mentions(stance.lowered, statement.text)
        offset = value.start - statement.start
        if len(statement.cells) > 1:
            number = statement.text[:offset].count("|") - (statement.text.lstrip().startswith("|"))
            header = self._header(statement.start)
            head = header[number] if 0 <= number < len(header) else ""
            first = [one for one in mentions if one.end <= statement.text.find("|", 2)] or mentions
            records = directory.nearest(stance.lowered, first, offset)
            keys = key_words(head) | key_words(statement.cells[0])
            return Place(value, unit if unit.measure else unit_of_name(head), keys, records, True)
        records = directory.nearest(stance.lowered, mentions, offset)
        return Place(value, unit, near_words(text, value), records, False)

    def _header(self, start: int) -> tuple[str, ...]:
        """Return the first row of the table that a row belongs to."""
        if self._headers is None:
            self._headers = {}
            header: tuple[str, ...] = ()
            end = -1
            for stance in self._speech.stances:
                statement = stance.statement
                if len(statement.cells) < 2:
                    header = ()
                    continue
                if not header or self._speech.text[end : statement.start].count("\n") > 2:
                    header = statement.cells
                self._headers[statement.start] = header
                end = statement.end
        return self._headers.get(start, ())

    def find(self, stance: Stance, value: Value) -> Counterpart | None:
        """Return the recorded number that a claimed one stands for, if it differs from it."""
        evidence = self._evidence
        if not evidence.is_readable and not (evidence.has_slips(value) and self._may_stand_for_any(stance, value)):
            return None
        if not evidence.facts:
            return None
        place = self.place(stance, value)
        is_guess = stance.is_plan or stance.is_uncertain
        found = self._counted(place) or self._slip(place, is_guess=is_guess)
        if found is None and not is_guess:
            found = self._labelled(place)
        if found is None and (not is_guess or (stance.is_plan and self._reports(stance, place))):
            found = self._named(place)
        return found

    def names_one(self, stance: Stance, value: Value) -> bool:
        """Return whether the clause of a number names one thing only, with its whole name."""
        clauses = (one.statement for one in self._speech.clauses(stance))
        clause = next((one for one in clauses if one.start <= value.start < one.end), None)
        if clause is None:
            return False
        begin = clause.start - stance.statement.start
        end = begin + len(clause.text)
        mentions = [one for one in self._mentions[stance.statement.start] if begin <= one.start and one.end <= end]
        if not mentions or not frozenset.intersection(*(one.records for one in mentions)):
            return False
        # A word of a longer text is no name: rain of "rain and snow likely".
        facts = self._evidence.directory.of(mentions[-1].records)
        names = {name for fact in facts for name in fact.names}
        named = [one for one in mentions if stance.lowered[one.start : one.end] in names]
        others = [one for one in self._speech.values_of(stance) if clause.start <= one.start < clause.end]
        if any(states(one, fact) for one in others for fact in facts if fact.is_structured):
            # The clause gives the value of the thing, too, and compares it: only a name beside the number is meant.
            start, end = value.start - stance.statement.start, value.end - stance.statement.start
            named = [one for one in named if 0 <= one.start - end <= MAX_BESIDE or 0 <= start - one.end <= MAX_BESIDE]
        return bool(named)

    def _may_stand_for_any(self, stance: Stance, value: Value) -> bool:
        """Return whether a number can stand for one of many: for a cell of a row, a measure, or a count of things."""
        is_row = len(stance.statement.cells) > 1
        if is_row or unit_at(self._speech.text, value.start, value.end).measure:
            return True
        behind = next_word(self._speech.text, value.end)
        is_counted = bool(behind) and any(f" {behind}" in call.lowered for call in self._evidence.calls)
        return is_counted or self._evidence.has_rows  # rows are looked for last, because all outputs are read for them

    def _reports(self, stance: Stance, place: Place) -> bool:
        """Return whether a sentence about the future reports a record, as of a forecast: it gives another number."""
        own = [fact for fact in self._evidence.directory.of(place.records) if fact.is_structured and fact.unit.measure]
        others = [value for value in self._speech.values_of(stance) if value.start != place.value.start]
        return any(
            abs(number - fact.number) <= 0.5 * 10.0**-decimals
            for fact in own
            for value in others
            for number, decimals in value.readings
        )

    def _counted(self, place: Place) -> Counterpart | None:
        """Return the only recorded number of the same things: `43 passed` for `40 passed`."""
        behind = next_word(self._speech.text, place.value.end)
        facts = [fact for fact in self._evidence.facts if fact.next_word == behind] if behind else []
        if len({fact.number for fact in facts}) != 1 or not self._evidence.is_complete:
            return None
        claimed, recorded = place.value.number, facts[-1].number
        is_other = claimed == recorded - 1  # "the other 56 tests"
        is_slip = not is_other and _is_slip_of(place.value, facts[-1].readings[0])
        return Counterpart(facts[-1], "high") if is_slip else None

    def _labelled(self, place: Place) -> Counterpart | None:
        """Return a number of the series that has the label of a claimed one, if that one does not follow from it.

        What is said to be conversions comes from the column of conversions. That it happens to be a combination of
        other numbers does not matter.
        """
        evidence, value = self._evidence, place.value
        if not evidence.is_complete or not evidence.is_readable or len(value.digits) < MIN_LABELLED_DIGITS:
            return None
        labels = _labels(self._speech.text, place)
        facts = [fact for fact in evidence.facts if fact.is_structured and fact.keys and fact.keys <= labels]
        same = [fact for fact in facts if place.unit.measure == fact.unit.measure and self._may_mean(place, fact)]
        if not same or _is_year(value) or len({fact.series for fact in facts}) > 1:
            return None
        own = Derivations(facts)
        is_scaled = self._speech.text[value.end : value.end + 1].isalpha()  # 1.48M is no 1.48
        for number, decimals in value.readings[:1] if is_scaled else value.readings:
            margin = tolerance(number, decimals)
            if own.has_amount(number, margin) or evidence.derivations.has_rate(number, margin, place.unit.measure):
                return None
            if evidence.is_given(number, margin):
                return None
        named = [fact for fact in same if fact.record in place.records] or same
        return Counterpart(named[-1], "medium")

    def _slip(self, place: Place, *, is_guess: bool) -> Counterpart | None:
        """Return a recorded number that differs by a slip: one digit, or the order of digits."""
        evidence, value = self._evidence, place.value
        size, count = len(value.digits), len(evidence.numbers)
        best, found = -1, None
        # Of many numbers, only those of the named records count.
        if evidence.is_readable:
            slips = {reading for reading in evidence.directory.readings if _is_slip_of(value, reading)}
            candidates = [fact for fact in evidence.facts if fact.readings[0] in slips] if slips else []
        else:
            named = evidence.directory.of(place.records)
            candidates = [fact for fact in named if _is_slip_of(value, fact.readings[0])]
        labels = _labels(self._speech.text, place) & evidence.directory.keys.keys() if candidates else frozenset()
        for fact in candidates:
            if labels and fact.is_structured and fact.keys.isdisjoint(labels):
                continue  # it is said to be a number of another column
            is_named = fact.record in place.records and fact.is_structured
            same_unit = place.unit.measure == fact.unit.measure
            if not (same_unit or is_named or is_comparable(place.unit, fact.unit)):
                continue
            certainty = 2 * is_named + bool(self._shared(place, fact)) + (same_unit and place.unit.measure != "")
            too_short = (size < 4 and count > MANY and not certainty) or (
                size < 3 and (not same_unit or (count > FEW and certainty < 2 + is_named))
            )
            if certainty > best and not too_short and (is_named or not self._is_reported(fact)):
                best, found = certainty, fact
        if (
            found is None
            or not self._overrides(place, best)
            or (is_guess and best < 1 + (size < MIN_LONG))
            or _is_status(place)
        ):
            return None
        return Counterpart(found, "high")

    def _overrides(self, place: Place, certainty: int) -> bool:
        """Return whether a slip is more likely than a computation with the same result."""
        evidence, value = self._evidence, place.value
        if not evidence.is_readable:
            return certainty > 1
        if certainty > 1 and len(value.digits) < MIN_DERIVED_DIGITS:
            own = Derivations(evidence.directory.of(place.records))
            return not any(own.has_amount(number, tolerance(number, decimals)) for number, decimals in value.readings)
        return not (evidence.is_computed(value) or (certainty < 2 and evidence.is_combined(value)))

    def _named(self, place: Place) -> Counterpart | None:
        """Return the number of the record or of the column that the sentence names."""
        evidence, value = self._evidence, place.value
        if not evidence.is_readable or not evidence.is_complete or _is_year(value):
            return None
        if (share := self._wrong_share(place)) is not None:
            return share
        if evidence.supports(value) and not evidence.supports_by_chance(value):
            return None
        directory = evidence.directory
        near = [fact for fact in directory.of(place.records) if self._may_mean(place, fact)]
        keyed = [fact for fact in near if self._shared(place, fact)]
        if len({fact.number for fact in keyed}) == 1 and keyed[0].is_structured:
            return Counterpart(keyed[0], "high")
        if place.is_row and len({fact.number for fact in near}) == 1:
            return Counterpart(near[0], "high")
        if (counted := self._quantity(place, near)) is not None:
            return counted
        same_unit = [fact for fact in near if fact.unit.measure == place.unit.measure != ""]
        if len({fact.number for fact in same_unit}) == 1:
            return Counterpart(same_unit[0], "medium")
        if place.is_row:
            return None
        everywhere = self._keyed(place)
        if len({fact.number for fact in everywhere}) == 1:
            return Counterpart(everywhere[-1], "medium")
        if (measured := self._only_measured(place)) is not None:
            return measured
        only = evidence.facts[0]
        is_only = len(evidence.numbers) == 1 and len(evidence.episode.calls) == 1
        return Counterpart(only, "high") if is_only and self._may_mean(place, only) else None

    def _only_measured(self, place: Place) -> Counterpart | None:
        """Return the last number of the only column with the unit of a claimed one, such as a rate in percent."""
        measure = place.unit.measure
        facts = self._evidence.facts if measure in _MEASURED else []
        same = [fact for fact in facts if fact.is_structured and fact.unit.measure == measure]
        if len({fact.series for fact in same}) != 1:
            return None
        meant = [fact for fact in same if self._may_mean(place, fact)]
        return Counterpart(meant[-1], "medium") if meant else None

    def _wrong_share(self, place: Place) -> Counterpart | None:
        """Return the count of the named thing, if a percentage of it is no ratio of that count and any number."""
        value = place.value
        own = [fact for fact in self._evidence.directory.of(place.records) if fact.is_structured]
        if place.unit.measure != "percent" or len(own) != 1 or own[0].unit.measure or own[0].decimals:
            return None
        count = own[0].number
        same = [fact.number for fact in self._evidence.facts if fact.series == own[0].series]
        if len(same) < MIN_SHARED or not count:
            return None
        others = [sum(same), max(same), *self._evidence.numbers]
        for number, decimals in value.readings:
            margin = max(0.5 * 10.0**-decimals, MAX_SHARE_ROUNDING) + 1e-9
            ratios = (100 * count / other for other in others if other)
            changes = (100 * abs(count - other) / other for other in others if other)
            if any(abs(ratio - abs(number)) <= margin for ratio in (*ratios, *changes)):
                return None
        return Counterpart(own[0], "medium")

    def _quantity(self, place: Place, near: list[Fact]) -> Counterpart | None:
        """Return the only quantity of the named record, if a number of things is claimed."""
        value = place.value
        counts = [fact for fact in near if fact.is_structured and fact.keys & _QUANTITIES]
        is_count = not place.unit.measure and not value.decimals and next_word(self._speech.text, value.end)
        return Counterpart(counts[0], "medium") if is_count and len(counts) == 1 else None

    def find_word(self, stance: Stance, value: Value) -> Counterpart | None:
        """Return the number of the column that the words around a number in words name."""
        if stance.is_plan or stance.is_uncertain or not self._evidence.is_complete or not self._evidence.facts:
            return None
        if self._is_part(value):
            return None
        place = self.place(stance, value)
        keyed = self._keyed(place)
        if len({fact.number for fact in keyed}) != 1 or not keyed[0].is_structured or keyed[0].decimals:
            return None
        return Counterpart(keyed[-1], "medium") if keyed[0].number != value.number else None

    def _is_part(self, value: Value) -> bool:
        """Return whether a word is a part of a longer number: one hundred and twenty-five."""
        text, language = self._speech.lowered, self._speech.language
        around = _NEXT_WORD.findall(text[value.end : value.end + 16])[:1] + _NEXT_WORD.findall(text[: value.start])[-2:]
        known = {**language.numbers, **language.scale} if language is not None else {}
        return any(word in known for word in around)

    def _may_mean(self, place: Place, fact: Fact) -> bool:
        """Return whether a number can be meant to be a recorded one, which the text does not report elsewhere."""
        claimed, recorded = place.value.number, fact.number
        if place.unit.measure == fact.unit.measure:
            claimed, recorded = claimed * place.unit.factor, recorded * fact.unit.factor
        if not is_comparable(place.unit, fact.unit) or self._is_reported(fact):
            return False
        if not claimed or not recorded:
            return claimed != recorded
        return 1 / MAX_RATIO <= claimed / recorded <= MAX_RATIO

    def _keyed(self, place: Place) -> list[Fact]:
        """Return the numbers that the words around a number name."""
        if not self._evidence.directory.telling(place.keys):
            return []
        return [fact for fact in self._evidence.facts if self._shared(place, fact) and self._may_mean(place, fact)]

    def _shared(self, place: Place, fact: Fact) -> frozenset[str]:
        """Return the words that name both numbers, without those of most columns."""
        return self._evidence.directory.telling(place.keys) & fact.keys

    def _is_reported(self, fact: Fact) -> bool:
        """Return whether the text reports a recorded number as it is."""
        recorded = fact.number
        is_reported = self._reported.get(recorded)
        if is_reported is None:
            is_reported = any(low <= recorded <= high for low, high in self._ranges)
            self._reported[recorded] = is_reported
        return is_reported

    @cached_property
    def _ranges(self) -> list[tuple[float, float]]:
        """Within which a recorded number is one that the text reports, rounded and in any unit."""
        ranges = []
        for value in (*self._speech.values, *self._words):
            for number, decimals in value.readings:
                margin = max(0.5 * 10.0**-decimals, MAX_ROUNDING * abs(number))
                ranges += [((number - margin) * factor, (number + margin) * factor) for factor in _FACTORS]
        return ranges


def states(value: Value, fact: Fact) -> bool:
    """Return whether a claimed number has this fact as its counterpart: the same number, rounded or not."""
    return any(
        abs(number - other) <= 0.5 * 10.0 ** -min(decimals, least) + 1e-9
        for number, decimals in value.readings
        for other, least in fact.readings
    )


_NEXT_WORD = re.compile(r"[^\W\d_]+")
_LABEL_BEFORE = re.compile(r"([^\W\d_][^\n\d:,;.()|•*]{1,30}?)[*_`\s]*[:=][*_`\s]*[€$£]?$")
"""What stands before a colon and a number: `Conversions: 174`."""


def _labels(text: str, place: Place) -> frozenset[str]:
    """Return the beginnings of the words that label a number: the head of its column, or the word beside it."""
    if place.is_row:
        return place.keys
    before = _LABEL_BEFORE.search(text, max(0, place.value.start - 40), place.value.start)
    if before is not None:
        return key_words(before[1])
    behind = next_word(text, place.value.end)
    return frozenset((behind,)) if behind else frozenset()


_MEASURED = frozenset(("percent", "temperature", "fahrenheit", "energy", "power"))
"""What is measured rather than computed or estimated: a number of a unit that only one column has comes from there."""
_QUANTITIES = frozenset(("qty", "quant", "count", "units", "piece", "anzah", "menge", "canti", "numbe", "num"))
"""Beginnings of the names of columns with a number of things."""


def _is_slip_of(value: Value, recorded: Reading) -> bool:
    """Return whether a number is a recorded one, rounded or not, with a slip."""
    (number, most), (own, least) = recorded, value.readings[0]
    if own and number and not 0.05 < own / number < 20:
        return False
    if own in (number * 10, number / 10, number - 1):
        return False  # another unit, or all but one
    for decimals in (least,) if most <= least else (least, most):
        claimed, other = _written(own, decimals), _written(number, decimals)
        while decimals and claimed[-1] == other[-1] == "0":
            claimed, other, decimals = claimed[:-1], other[:-1], decimals - 1
        if is_slip(claimed.replace(".", "").lstrip("0"), other.replace(".", "").lstrip("0")):
            return True
    return False


@lru_cache(maxsize=4_096)
def _written(number: float, decimals: int) -> str:
    return f"{abs(number):.{decimals}f}"


_FACTORS = (1.0, 0.01, 100.0, 1e3, 1e-3, 1e6)


def _is_status(place: Place) -> bool:
    """Return whether a number can be a status of HTTP, which everybody knows: it gets a 413."""
    value = place.value
    is_known = value.text.isdigit() and (200 <= value.number <= 206 or 300 <= value.number <= 308)
    is_error = value.text.isdigit() and (400 <= value.number <= 431 or 500 <= value.number <= 511)
    return (is_known or is_error) and not place.unit.measure and not place.records


def _is_year(value: Value) -> bool:
    return value.text.isdigit() and len(value.text) == 4 and 1900 <= value.number < 2100
