"""The values of an episode: given by the user, recorded in outputs, and what can be computed from them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date as calendar_date
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

from critiqor.diagnosis.claims.episode import MAX_DIGITS, Episode, EpisodeCall
from critiqor.diagnosis.claims.numbers import Numbers, completes, tolerance, written_forms
from critiqor.diagnosis.claims.recorded.derivations import Derivations, Sorted, converted
from critiqor.diagnosis.claims.recorded.facts import Fact, facts_of, given_facts, has_rows
from critiqor.diagnosis.claims.recorded.record_names import RecordNames
from critiqor.diagnosis.claims.recorded.slips import MAX_VARIED, MIN_VARIED, variants
from critiqor.diagnosis.claims.recorded.units import unit_at
from critiqor.diagnosis.claims.values import Value, digits_of, values_in, word_numbers

MAX_READ = 120
"""Maximum number of numbers in the outputs of an episode that are examined for arithmetic. With more of them, some
combination has any result, so only the numbers themselves are looked up."""
MAX_COMPARED = 300
"""Maximum number of numbers in the outputs of an episode with which those of its texts are compared."""
MAX_DERIVED = 40
"""Maximum number of values of an episode for which arithmetic is tried."""
MAX_GIVEN = 24
"""Maximum number of given numbers that are combined with others."""
PERIODS = (7.0, 12.0, 24.0, 28.0, 30.0, 31.0, 52.0, 60.0, 365.0)
"""Numbers that everybody knows: days of a week, months of a year."""
MEASURES = {"eur": "EUR", "usd": "USD", "gbp": "GBP", "s": "time", "ms": "time", "min": "time", "h": "time"} | {
    **dict.fromkeys(("kb", "mb", "gb"), "size"),
    "km": "length",
    "kwh": "energy",
}
"""What the units of values measure."""
MAX_RATES = 100
DAY = 86_400.0
"""Seconds of a day."""
MAX_DAYS = 60
"""Maximum number of days that are compared with each other."""
MIN_RATIO = 3
"""Minimum of a ratio without decimals that may be rounded: four times as many."""
CUT_MARK = 200
"""Number of characters at the end of an output in which a tool says that it cut it."""
_CUT = re.compile(
    r"\btruncated\b|\b(?:more|further) (?:characters|chars|bytes|lines)\b|\bomitted\b|已截断|省略", re.IGNORECASE
)
_TIME = re.compile(r"([01]\d|2[0-3])\.([0-5]\d)")
_VERSION = re.compile(r"\d+\.\d+\.\d")


def _is_cut(call: EpisodeCall) -> bool:
    """Return whether a part of an output was not recorded, or its tool says at its end that it left a part out."""
    if call.known_cut is None:
        call.known_cut = call.is_cut or _CUT.search(call.text, max(0, len(call.text) - CUT_MARK)) is not None
    return call.known_cut


class RecordedDate(NamedTuple):
    """A date in an output."""

    date: tuple[int | None, int, int]
    call: EpisodeCall


class Evidence:
    """The values of an episode and of the ones before it; each part is read when it is first needed."""

    def __init__(self, episode: Episode) -> None:
        self.episode = episode
        self._supported: dict[str, bool] = {}
        """Values that were looked up, as they are written."""
        self._by_measure: dict[str, Derivations] = {}
        self._accepted: list[Value] = []
        """Values of the answer that are supported: others may be computed from them."""
        self._derivations = MAX_DERIVED
        self._dense: dict[int, bool] = {}
        self._numbers: dict[int, dict[int, str]] = {}
        """The numbers of outputs by their digits, by position of the call: they are not kept with the call."""

    @cached_property
    def calls(self) -> list[EpisodeCall]:
        """The calls of earlier episodes and of this one, in order."""
        return [*(call for each in reversed(self.episode.earlier) for call in each.calls), *self.episode.calls]

    @cached_property
    def is_complete(self) -> bool:
        """Whether all that was seen is here: if not, something that is not found may still have been seen."""
        kept = not self.episode.has_dropped and not any(call.is_shortened for call in self.calls)
        return kept and self.is_recorded

    @cached_property
    def is_recorded(self) -> bool:
        """Whether the recording has all that the calls which are kept have returned."""
        return not any(map(_is_cut, self.calls))

    @cached_property
    def seen(self) -> str:
        """Everything that was seen or given, in lower case."""
        return self.episode.seen

    @cached_property
    def results(self) -> str:
        """All outputs and everything that was said before, in lower case."""
        said = (text.text for each in self.episode.earlier for text in (*each.requests, *each.messages))
        return "\n".join((*(call.text for call in self.calls), *said)).lower()

    @cached_property
    def squeezed(self) -> str:
        """The same without spaces and punctuation."""
        return re.sub(r"[\W_]", "", self.seen)

    @cached_property
    def raw(self) -> set[str]:
        """The numbers of all outputs, as they are written."""
        return set().union(*(call.numbers for call in self.calls))

    @cached_property
    def is_readable(self) -> bool:
        """Whether there are few enough numbers for arithmetic."""
        return self._count <= MAX_READ and len(self.raw) <= MAX_READ

    @property
    def is_vast(self) -> bool:
        """Whether there are so many numbers that one of them is like any other, so that none contradicts another."""
        return self._count > MAX_COMPARED

    @cached_property
    def _count(self) -> int:
        """How many different numbers there are; if they are vast, not all are counted."""
        found: set[int] = set()
        for call in self.calls:
            found |= call.digits
            if len(found) > MAX_COMPARED:
                break
        return len(found)

    @cached_property
    def outputs(self) -> Numbers:
        """The numbers of outputs."""
        numbers = Numbers()
        for call in self.calls:
            numbers.add_text(call.text)
        numbers.close()
        return numbers

    @cached_property
    def given(self) -> Numbers:
        """The numbers of arguments, requests and earlier messages."""
        numbers = Numbers()
        for call in self.calls:
            numbers.add_text(call.facts)
        earlier = [text for each in self.episode.earlier for text in (*each.requests, *each.messages)]
        for text in (*self.episode.requests, *earlier):
            numbers.add_text(text.text)
            numbers.add_sums(text.text)
            for value in word_numbers(text.text, self.episode.language):
                numbers.add(value.number)
        numbers.close()
        return numbers

    @cached_property
    def facts(self) -> list[Fact]:
        """The numbers of outputs with what they belong to."""
        return facts_of(self.calls)

    @cached_property
    def has_rows(self) -> bool:
        """Whether an output has objects or rows with numbers."""
        return any(map(has_rows, self.calls))

    @cached_property
    def numbers(self) -> set[float]:
        """The different numbers of outputs."""
        return {fact.number for fact in self.facts}

    @cached_property
    def directory(self) -> RecordNames:
        """The names of what the numbers belong to."""
        return RecordNames(self.facts)

    @cached_property
    def derivations(self) -> Derivations:
        """What a person computes from the numbers of outputs."""
        return Derivations(self._operands)

    @cached_property
    def _operands(self) -> list[Fact]:
        return [*self.facts, *given_facts(self.calls)]

    def derivations_of(self, measure: str) -> Derivations:
        """Return what a person computes from the numbers that can measure the same."""
        if not measure:
            return self.derivations
        if measure not in self._by_measure:
            measures = ("", measure)
            operands = [fact for fact in self._operands if fact.unit.measure in measures]
            self._by_measure[measure] = Derivations(operands)
        return self._by_measure[measure]

    @cached_property
    def _digits(self) -> set[int]:
        """The digits of the numbers of all outputs, read as one number each."""
        return set().union(*(call.digits for call in self.calls))

    def _alike(self, value: Value) -> set[int]:
        digits = value.digits
        if not MIN_VARIED <= len(digits) <= MAX_VARIED or self._is_dense(len(digits)):
            return set()
        found = self._digits.intersection(variants(digits))
        found.discard(int(digits))
        return found

    def _is_dense(self, size: int) -> bool:
        """Return whether so many numbers of this many digits were recorded that most others differ by a slip only."""
        dense = self._dense.get(size)
        if dense is None:
            least = 10 ** (size - 1)
            # Each digit can be another one, and each two can be exchanged.
            limit = 9 * least / (9 * size + size * (size - 1) / 2)
            dense = not self.is_readable and sum(least <= each < 10 * least for each in self._digits) >= limit
            self._dense[size] = dense
        return dense

    def has_slips(self, value: Value) -> bool:
        """Return whether recorded numbers differ from a value by one digit, or by the order of digits, only."""
        return bool(self._alike(value))

    @cached_property
    def dates(self) -> list[RecordedDate]:
        """The dates of outputs."""
        return [
            RecordedDate(value.date, call)
            for call, line in self._lines()
            for value in values_in(line)
            if value.date is not None
        ]

    def _lines(self) -> Iterator[tuple[EpisodeCall, str]]:
        if self.is_readable:
            for call in self.calls:
                for line in call.text.splitlines():
                    if any(map(str.isdigit, line)):
                        yield call, line

    def is_written(self, value: Value) -> bool:
        """Return whether an output contains a number as it is, in any notation."""
        if len(value.text) > MAX_DIGITS:
            return any(form in call.numbers for form in written_forms(value) for call in self.calls)
        if len(value.readings) == 1 and value.text[-1] != "0" and self._number_of(value.text) not in self._digits:
            return False  # its other notations have the same digits
        for form in written_forms(value):
            number = self._number_of(form)
            if number in self._digits:
                for call in self.calls:
                    if number in call.digits and (self._written(call, number) == form or form in call.numbers):
                        return True
        return False

    def _written(self, call: EpisodeCall, digits: int) -> str:
        """Return the number with these digits in an output, as it is written there."""
        numbers = self._numbers.get(call.order)
        if numbers is None:
            numbers = self._numbers[call.order] = call.numbers_by_digits()
        return numbers[digits]

    @staticmethod
    def _number_of(text: str) -> int:
        return int(digits_of(text) or "0")

    def states(self, value: Value) -> bool:
        """Return whether a value was given or recorded, or is a sum, an average or a count of what was recorded."""
        if self.is_written(value) or value.text in self.episode.request or self._is_version(value):
            return True
        if (time := _TIME.fullmatch(value.text)) and f"{time[1]}:{time[2]}" in self.seen:
            return True  # in many languages, hours and minutes are separated by a point
        return self.is_readable and (self.given.has(value) or self.outputs.has(value) or self._is_total(value))

    def _is_total(self, value: Value) -> bool:
        return any(
            self.derivations.has_total(number, tolerance(number, decimals)) for number, decimals in value.readings
        )

    def _is_version(self, value: Value) -> bool:
        """Return whether a number is the beginning of a recorded version: 20 or 18.17 of 18.17.0."""
        at = self.seen.find(f"{value.text}.")
        while at >= 0:
            is_first = not at or not (self.seen[at - 1].isdigit() or self.seen[at - 1] == ".")
            if is_first and _VERSION.match(self.seen, at):
                return True
            at = self.seen.find(f"{value.text}.", at + 1)
        return False

    def is_stated_apart(self, value: Value, call: EpisodeCall) -> bool:
        """Return whether a value was given by the user, or is in the result of another call."""
        if value.text in self.episode.request or self.requested.states(value):
            return True
        return any(value.text in other.numbers for other in self.calls if other is not call)

    @cached_property
    def requested(self) -> Numbers:
        """The numbers of the requests and of arguments: what the agent said itself is left out."""
        numbers = Numbers()
        for each in (self.episode, *self.episode.earlier):
            for text in each.requests:
                numbers.add_text(text.text)
        for call in self.calls:
            numbers.add_text(call.facts)
        return numbers

    def supports(self, value: Value) -> bool:
        """Return whether a value was given, recorded or can be computed, or may have been: of many numbers, any can."""
        supported = self._supported.get(value.text)
        if supported is None:
            supported = self._supported[value.text] = not self.is_readable or self.states(value) or self._derives(value)
        return supported

    def _derives(self, value: Value) -> bool:
        self._derivations -= 1
        if self._derivations < 0 or not self.derivations.is_complete:
            return True
        return self.is_computed(value) or self.is_combined(value) or self._is_periodic(value)

    def is_computed(self, value: Value) -> bool:
        """Return whether a value follows from recorded numbers that belong together and measure the same."""
        if value.unit == "temperature":
            return False
        is_share = value.unit == "%"
        measure = MEASURES.get(value.unit, value.unit)
        computed = self.derivations_of(measure)
        for number, decimals in value.readings:
            margin = tolerance(number, decimals)
            if is_share and self.derivations.has_share(abs(number) / 100, margin / 100):
                return True
            if computed.has_amount(number, margin) or self.derivations.has_rate(number, margin, measure):
                return True
            if not value.unit and computed.has_share(number, margin if decimals or number >= MIN_RATIO else 0.02):
                return True
        return False

    def is_converted(self, value: Value, text: str) -> bool:
        """Return whether a value of a text is a recorded number in another unit."""
        unit = unit_at(text, value.start, value.end)
        same = [fact for fact in self.facts if fact.unit.measure == unit.measure] if unit.measure else []
        for number, decimals in value.readings:
            margin = tolerance(number, decimals) * unit.factor
            if any(abs(fact.number * fact.unit.factor - number * unit.factor) <= margin for fact in same):
                return True
            for other, factor in converted(number, unit):
                margin = tolerance(number, decimals) * factor
                if self.outputs.is_near(other, margin) or self.given.is_near(other, margin):
                    return True
        return False

    def is_elapsed(self, value: Value, text: str) -> bool:
        """Return whether a value of a text is the time between two known days: valid for another 90 days."""
        unit = unit_at(text, value.start, value.end)
        if unit.measure != "time" or unit.factor < DAY:
            return False
        return any(
            self._elapsed_days.has(number * unit.factor / DAY, max(1.0, 0.5 * unit.factor / DAY))
            for number, _ in value.readings
        )

    @cached_property
    def _elapsed_days(self) -> Sorted:
        """The numbers of days between the days that outputs, requests and their times name."""
        named = [each.date for each in self.dates]
        for text in self.episode.requests:
            found = values_in(text.text, self.episode.request_language, has_numbers=False)
            found += values_in(text.timestamp, has_numbers=False)
            named += [value.date for value in found if value.date is not None]
        days = list(dict.fromkeys(day for date in named if (day := _ordinal(date)) is not None))[:MAX_DAYS]
        return Sorted(abs(one - other) for one, other in combinations(days, 2))

    def _is_periodic(self, value: Value) -> bool:
        """Return whether a value is a known number of times another one: per year, per day."""
        if value.unit in ("%", "temperature") or MEASURES.get(value.unit, value.unit) == "time":
            return False
        order = self._known
        for number, decimals in value.readings:
            margin = tolerance(number, decimals)
            for factor in PERIODS:
                if order.has(number / factor, margin / factor) or order.has(number * factor, margin * factor):
                    return True
        return False

    @cached_property
    def _known(self) -> Sorted:
        return Sorted((*self.outputs.recorded, *self.derivations.totals, *self.given.recorded))

    def is_combined(self, value: Value) -> bool:
        """Return whether a value follows from one that was given, or from one of the same text, and another one."""
        is_share = value.unit == "%"
        accepted = [one for one in self._accepted[-MAX_GIVEN:] if is_share or one.unit in ("", value.unit)]
        given = list(dict.fromkeys((*self.given.recorded[-MAX_GIVEN:], *(one.number for one in accepted))))
        recorded = self.outputs.recorded[-MAX_GIVEN:]
        others = Sorted((*given, *recorded, *self.derivations.totals[:MAX_GIVEN]))
        return any(
            completes(number, tolerance(number, decimals), given, others, is_share=is_share)
            for number, decimals in value.readings
        ) or self._is_rate(value)

    def _is_rate(self, value: Value) -> bool:
        """Return whether a value is a rate or a yearly amount, times one that was given: kWh a year at a price."""
        return any(
            given and self._rates.has(number / given, 0.5 * 10.0**-decimals / abs(given))
            for number, decimals in value.readings
            for given in self.given.recorded[-MAX_GIVEN:]
        )

    @cached_property
    def _rates(self) -> Sorted:
        recorded = self.outputs.recorded[-MAX_GIVEN:]
        rated = [rate.number for rate in self.derivations.rates[:MAX_RATES]]
        return Sorted((*(one * period for one in recorded for period in PERIODS), *rated))

    def accept(self, value: Value) -> None:
        """Add a value of the answer that is supported: the next one may be computed from it."""
        if self.is_readable:
            self._accepted.append(value)


def _ordinal(date: tuple[int | None, int, int]) -> int | None:
    """Return the number of a day in the calendar; None if its year is not known or it does not exist."""
    year, month, day = date
    try:
        return None if year is None else calendar_date(year, month, day).toordinal()
    except ValueError:
        return None
