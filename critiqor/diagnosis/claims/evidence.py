"""The values of an episode: given by the user, recorded in outputs, and what can be computed from them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import date as calendar_date
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

from critiqor.diagnosis.claims.arithmetic import Numbers, tolerance, written_forms
from critiqor.diagnosis.claims.episode import MAX_DIGITS, Episode, EpisodeCall
from critiqor.diagnosis.claims.recorded.clock_times import moments_in, times_of_day
from critiqor.diagnosis.claims.recorded.derivations import Derivations, adds_up, multiplies, scales
from critiqor.diagnosis.claims.recorded.facts import Fact, facts_of, given_facts, has_rows
from critiqor.diagnosis.claims.recorded.record_names import RecordNames
from critiqor.diagnosis.claims.recorded.slips import MAX_VARIED, MIN_VARIED, variants
from critiqor.diagnosis.claims.recorded.sorted_numbers import Sorted
from critiqor.diagnosis.claims.recorded.units import converted, unit_at
from critiqor.diagnosis.claims.values import Reading, Value, digits_of, values_in, word_numbers

MAX_READ = 120
"""Maximum number of numbers in the outputs of an episode that are examined for arithmetic. With more of them, some
combination has any result, so only the numbers themselves are looked up."""
MAX_COMPARED = 300
"""Maximum number of numbers in the outputs of an episode with which those of its texts are compared."""
MAX_DERIVED = 40
"""Maximum number of values of an episode for which arithmetic is tried."""
MAX_CHANCE, MIN_PAIRS = 0.3, 50
"""Maximum relative margin of a number that is hardly the ratio of two others by chance, for each pair of them."""
MAX_CHANCE_OF_OWN = 0.5
"""The same for the product or the ratio of two numbers that a text itself reports."""
MAX_GIVEN = 24
"""Maximum number of given numbers that are combined with others."""
MIN_LINES = 100
"""Minimum number of lines of a file of which the first one may be left out: with fewer, it is one less by mistake."""
MAX_STEPS = 3
"""Maximum number of steps of a computation whose results a text reports one by one."""
MEASURES = {"eur": "EUR", "usd": "USD", "gbp": "GBP", "s": "time", "ms": "time", "min": "time", "h": "time"} | {
    **dict.fromkeys(("kb", "mb", "gb"), "size"),
    "km": "length",
    "kwh": "energy",
}
"""What the units of values measure."""
HOUR, DAY = 3_600.0, 86_400.0
"""In seconds."""
MAX_TIMES = 12
"""Maximum number of times of day that are compared with each other."""
MAX_MOMENTS = 24
"""Maximum number of moments with date and time that are compared with each other."""
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
        self._stated: dict[tuple[str, tuple[Reading, ...]], bool] = {}
        self._by_measure: dict[str, Derivations] = {}
        self._accepted: list[Value] = []
        """Values of the answer that are supported: others may be computed from them."""
        self._derivations = MAX_DERIVED
        self._dense: dict[int, bool] = {}
        self._slips: dict[str, bool] = {}
        """Whether recorded numbers differ from these digits by a slip only."""
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
            numbers.add_rows(call.text)
        numbers.close()
        return numbers

    @cached_property
    def given(self) -> Numbers:
        """The numbers of arguments."""
        numbers = Numbers()
        for call in self.calls:
            numbers.add_text(call.facts)
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

    def is_in_rows(self, value: Value) -> bool:
        """Return whether an output with objects or rows may contain a number, rounded or not."""
        number = int(value.digits or 0)
        if number in self._digits:
            return any(number in call.digits and has_rows(call) for call in self.calls)
        return self.has_rows

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
        alike = self._slips.get(value.digits)
        if alike is None:
            alike = self._slips[value.digits] = bool(self._alike(value))
        return alike

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
        key = value.text, value.readings
        if key not in self._stated:
            self._stated[key] = self._find(value)
        return self._stated[key]

    def _find(self, value: Value) -> bool:
        if self.is_written(value) or value.text in self.episode.request or self._is_version(value):
            return True
        if (time := _TIME.fullmatch(value.text)) and f"{time[1]}:{time[2]}" in self.seen:
            return True  # in many languages, hours and minutes are separated by a point
        return self.is_readable and (
            self.asked.has(value) or self.given.has(value) or self.outputs.has(value) or self._is_total(value)
        )

    def _is_total(self, value: Value) -> bool:
        # A sum is often given in a larger unit: so many kWh of Wh.
        return any(
            self.derivations.has_total(number * factor, tolerance(number, decimals) * factor)
            for number, decimals in value.readings
            for factor in (1.0, 1e3)
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
        if value.text in self.episode.request or self.requested.states(value) or self._is_asked(value):
            return True
        return any(value.text in other.numbers for other in self.calls if other is not call)

    def _is_asked(self, value: Value) -> bool:
        """Return whether a value is the sum of numbers of a request."""
        return any(self.asked.is_near(number, tolerance(number, decimals)) for number, decimals in value.readings)

    @cached_property
    def requested(self) -> Numbers:
        """The numbers of the requests and of arguments: what the agent said itself is left out."""
        numbers = Numbers()
        for each in (self.episode, *self.episode.earlier):
            for text in each.requests:
                numbers.add_numbers(text.text)
        for call in self.calls:
            numbers.add_numbers(call.facts)
        return numbers

    def supports(self, value: Value) -> bool:
        """Return whether a value was given, recorded or can be computed, or may have been: of many numbers, any can."""
        supported = self._supported.get(value.text)
        if supported is None:
            supported = self._supported[value.text] = not self.is_readable or self.states(value) or self._derives(value)
        return supported

    def supports_by_chance(self, value: Value) -> bool:
        """Return whether a percentage only follows because nearly every one of its size does."""
        if value.unit != "%" or not value.readings or self.states(value):
            return False
        number, decimals = value.readings[0]
        return self.derivations.is_by_chance(abs(number) / 100, tolerance(number, decimals) / 100)

    def accept(self, values: Iterable[Value], text: str) -> None:
        """Decide the numbers of a text: those that were recorded first, then those that follow from these in turn."""
        if not self.is_readable:
            return
        left: list[Value] = []
        for value in values:
            if value.kind == "number":
                is_known = self.states(value) or self.is_converted(value, text) or self.is_elapsed(value, text)
                (self._accepted if is_known else left).append(value)
        for _ in range(MAX_STEPS):
            found = [value for value in left if self._derives(value)]
            if not found:
                break
            # A percentage is the last step of a computation: what it leads back to need not have been recorded.
            self._accepted += [value for value in found if value.unit != "%"]
            self._supported |= dict.fromkeys((value.text for value in found), True)
            left = [value for value in left if value not in found]
        self._supported |= dict.fromkeys((value.text for value in left), False)
        self._supported |= dict.fromkeys((value.text for value in self._accepted), True)

    def _derives(self, value: Value) -> bool:
        self._derivations -= 1
        if self._derivations < 0 or not self.derivations.is_complete:
            return True
        return self.is_computed(value) or self.is_combined(value)

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
                if self.outputs.is_near(other, margin) or self.is_given(other, margin):
                    return True
        return False

    def is_given(self, number: float, margin: float) -> bool:
        """Return whether a number was given by the user or as an argument."""
        return self.asked.is_near(number, margin) or self.given.is_near(number, margin)

    def is_elapsed(self, value: Value, text: str) -> bool:
        """Return whether a value of a text is the time between two known days or times of day: in another 90 days."""
        unit = unit_at(text, value.start, value.end)
        if unit.measure != "time" and (unit.measure or not value.decimals):
            return False
        factor = unit.factor if unit.measure else HOUR  # 8.5 of a day of work
        for number, decimals in value.readings:
            days = number * unit.factor / DAY
            if unit.factor >= DAY and self._elapsed_days.has(days, max(1.0, 0.5 * unit.factor / DAY)):
                return True
            if self._elapsed_seconds.has(number * factor, tolerance(number, decimals) * factor):
                return True
        return False

    @cached_property
    def _elapsed_seconds(self) -> Sorted:
        """The numbers of seconds between the times of day in outputs; of many times, some two have any distance."""
        times = list(dict.fromkeys(time for call in self.calls for time in times_of_day(call.text)))
        moments = list(dict.fromkeys(moment for call in self.calls for moment in moments_in(call.text)))[:MAX_MOMENTS]
        elapsed = [abs(one - other) for one, other in combinations(times, 2) if len(times) <= MAX_TIMES]
        # The night between two times of day: from 22:47 to 03:12.
        elapsed += [DAY - seconds for seconds in elapsed]
        return Sorted((*elapsed, *(abs(one - other) for one, other in combinations(moments, 2))))

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

    def is_combined(self, value: Value) -> bool:
        """Return whether a value follows from one that was given or that a text reports, and another one."""
        accepted, asked = self._accepted[-MAX_GIVEN:], self.asked.recorded[-MAX_GIVEN:]
        own = [*(one.number for one in accepted), *asked]
        alike = [*(one.number for one in accepted if one.unit in ("", value.unit) or not value.unit), *asked]
        is_share, known, others = value.unit == "%", Sorted(own), self._computable
        for number, decimals in value.readings:
            margin = tolerance(number, decimals)
            # Of many numbers, some two add up to any other one.
            is_clear = not others.is_dense(number, margin * max(1, len(alike)))
            if (is_clear and adds_up(number, margin, alike, others)) or (
                number >= MIN_LINES and not decimals and others.has(number + 1, 0.0)  # all lines but the first
            ):
                return True
            is_clear = 0.5 * 10.0**-decimals * len(own) ** 2 <= MAX_CHANCE_OF_OWN * abs(number)
            if is_clear and multiplies(number, margin, own, known, is_share=is_share):
                return True
            # Of many numbers, some two have any ratio, so the more there are, the more digits it must agree in.
            chance = MAX_CHANCE / max(MIN_PAIRS, (len(own) + len(self._passed)) * len(others.numbers))
            if is_share:
                continue
            exact = margin if decimals else 0.0  # so many pages of 20 are a whole number
            if exact <= chance * abs(number) and multiplies(number, exact, [*own, *self._passed], others):
                return True
            if scales(number, asked, others):
                return True
        return False

    @cached_property
    def _computable(self) -> Sorted:
        """The numbers with which others are computed; that of an error is no such number."""
        failed = Numbers()
        for call in self.calls:
            if call.meaning.state == "failure":
                failed.add_numbers(call.text)
        # A whole number in a text may be a part of a name.
        printed = {*self.numbers, *(number for number in self.outputs.recorded if number % 1)} - set(failed.recorded)
        return Sorted((*printed, *self.derivations.totals, *self._passed, *self.asked.recorded))

    @cached_property
    def _passed(self) -> list[float]:
        """The numbers that were passed as arguments."""
        return [fact.number for fact in self._operands if fact.record < 0][-MAX_GIVEN:]

    @cached_property
    def asked(self) -> Numbers:
        """The numbers of requests and of earlier messages."""
        numbers = Numbers()
        earlier = [text for each in self.episode.earlier for text in (*each.requests, *each.messages)]
        for text in (*self.episode.requests, *earlier):
            numbers.add_text(text.text)
            numbers.add_sums(text.text)
            for value in word_numbers(text.text, self.episode.language):
                numbers.add(value.number)
        numbers.close()
        return numbers


def _ordinal(date: tuple[int | None, int, int]) -> int | None:
    """Return the number of a day in the calendar; None if its year is not known or it does not exist."""
    year, month, day = date
    try:
        return None if year is None else calendar_date(year, month, day).toordinal()
    except ValueError:
        return None
