"""The values of an episode: given by the user, recorded in outputs, and what can be computed from them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import chain, combinations
from typing import NamedTuple

import msgspec

from critiqor.diagnosis.claims.arithmetic import Numbers, written_forms
from critiqor.diagnosis.claims.episode import MAX_DIGITS, Episode, EpisodeCall, tokens
from critiqor.diagnosis.claims.language import small_words
from critiqor.diagnosis.claims.values import FACTORS, Value, digits_of, read_number, values_in, word_numbers

MAX_READ = 60
"""Maximum number of numbers in the outputs of an episode that are examined for arithmetic. With more of them, some
combination has any result, so only the numbers themselves are looked up."""
MAX_DERIVED = 16
"""Maximum number of values of an episode for which arithmetic is tried."""
_NAMING = re.compile(r"[\"'`*]*\s*[:=|\t,]?\s*[\"'`*$€£]*\n?")
"""What may stand between a name and its number."""
_NAMING_SIGNS = "\"'`*:=|,$€£" + "".join(char for char in map(chr, range(0x3001)) if char.isspace())
_NAME_END = re.compile(r"[\w%/()-]*\Z")
_LETTER = re.compile(r"[^\W\d_]")
MAX_NAME = 4
"""Maximum number of words before a number that name it."""
_AFTER = re.compile(r"^[\"'`*%]*\s*[|,;]?\s*[\"'`*]*([^\W\d_][\w-]*(?: [^\W\d_][\w-]*)?)")
_NEIGHBOUR = re.compile(r"\"([^\"\n]{2,40})\",\s*\"\w+\":\s*\"?$")
MIN_LABEL = 3
"""Minimum number of letters of a word that names a number."""


class Labelled(msgspec.Struct):
    """A recorded number with the words that name it."""

    value: Value
    line: str
    call: EpisodeCall
    known_words: frozenset[str] | None = None

    @property
    def words(self) -> frozenset[str]:
        """The words of its line that name it."""
        if self.known_words is None:
            self.known_words = label_of(self.line, self.value)
        return self.known_words


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
        self._places: dict[str, Labelled | None] = {}
        self._derivations = MAX_DERIVED

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
        return not any(call.is_cut for call in self.calls)

    @cached_property
    def seen(self) -> str:
        """Everything that was seen or given, in lower case."""
        return self.episode.seen

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
        return len(self._digits) <= MAX_READ and len(self.raw) <= MAX_READ

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
            for value in word_numbers(text.text, self.episode.language):
                numbers.add(value.number)
        numbers.close()
        return numbers

    @cached_property
    def labelled(self) -> list[Labelled]:
        """The numbers of outputs with their names, if there are few."""
        return [
            Labelled(value, line, call)
            for call, line in self._lines()
            for each in values_in(line)
            if (value := as_number(each)).kind == "number"
        ]

    @cached_property
    def _digits(self) -> set[int]:
        """The digits of the numbers of all outputs, read as one number each."""
        return set().union(*(call.digits for call in self.calls))

    def _alike(self, value: Value) -> set[int]:
        digits = value.digits
        if not MIN_LABEL <= len(digits) <= MAX_VARIED:
            return set()
        found = self._digits.intersection(_variants(digits))
        found.discard(int(digits))
        return found

    def has_slips(self, value: Value) -> bool:
        """Return whether recorded numbers differ from a value by one digit, or by the order of digits, only."""
        return bool(self._alike(value))

    def slips(self, value: Value) -> list[Labelled]:
        """Return the recorded numbers that differ from a value by one digit, or by the order of digits, only."""
        alike = self._alike(value)
        found = {call.digits[digits] for digits in alike for call in self.calls if digits in call.digits}
        places = [self._place(raw) for raw in sorted(found) if self._may_have(raw, value.decimals)]
        return [place for place in places if place is not None]

    def _may_have(self, raw: str, decimals: int) -> bool:
        """Return whether a number has so many decimals; a factor behind it, such as `万`, makes them fewer."""
        own = read_number(raw)[0].decimals
        return own == decimals or (own > decimals and self._has_factors)

    @cached_property
    def _has_factors(self) -> bool:
        return any(factor in call.text for call in self.calls for factor in FACTORS)

    def _place(self, raw: str) -> Labelled | None:
        """Return where a number stands in an output."""
        if raw not in self._places:
            self._places[raw] = self._find(raw)
        return self._places[raw]

    def _find(self, raw: str) -> Labelled | None:
        for call in reversed(self.calls):
            at = call.text.find(raw)
            if at >= 0:
                start = call.text.rfind("\n", 0, at) + 1
                line = call.text[start : at + len(raw) + 60].split("\n")[0]
                for each in values_in(line):
                    if (value := as_number(each)).kind == "number" and value.text == raw:
                        return Labelled(value, line, call)
        return None

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
                    if number in call.digits and (call.digits[number] == form or form in call.numbers):
                        return True
        return False

    @staticmethod
    def _number_of(text: str) -> int:
        return int(digits_of(text) or "0")

    def states(self, value: Value) -> bool:
        """Return whether a value was given or recorded, or is a sum, an average or a count of what was recorded."""
        if self.is_written(value) or value.text in self.episode.request:
            return True
        return self.is_readable and (self.given.has(value) or self.outputs.has(value))

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
        if self._derivations < 0:
            return True
        return self.outputs.derives(value) or self.given.derives(value) or self._across(value)

    def _across(self, value: Value) -> bool:
        both = Numbers()
        for numbers in (self.outputs, self.given):
            for number in numbers.recorded[-24:]:
                both.add(number)
        return both.derives(value)

    def accept(self, value: Value) -> None:
        """Add a value of the answer that is supported: the next one may be computed from it."""
        if self.is_readable:
            self.given.add(value.number)


def as_number(value: Value) -> Value:
    """Return a value that consists of digits as the number that it may be: a sum of a query has no separators."""
    if value.kind == "identifier" and value.text.isdigit() and len(value.text) <= MAX_VARIED:
        return msgspec.structs.replace(value, kind="number", readings=read_number(value.text))
    return value


def is_slip(claimed: str, recorded: str) -> bool:
    """Return whether two numbers differ by one digit, by a missing one, or only by the order of their digits."""
    if min(len(claimed), len(recorded)) < 2 or claimed == recorded:
        return False
    if len(claimed) == len(recorded):
        different = sum(one != other for one, other in zip(claimed, recorded, strict=True))
        return different == 1 or (different <= 3 and sorted(claimed) == sorted(recorded))
    shorter, longer = sorted((claimed, recorded), key=len)
    return len(shorter) >= 3 and len(longer) == len(shorter) + 1 and shorter in (longer[1:], longer[:-1])


MAX_VARIED = 9
"""Maximum number of digits of a number that is compared by its digits."""


def _variants(digits: str) -> Iterator[int]:
    """Return the numbers from which a number differs by a slip, and itself; those with fewer digits are left out."""
    number = int(digits)
    power = 10 ** len(digits)
    found: list[Iterable[int]] = [
        range(number + power, number + 10 * power, power),  # one more digit in front
        range(10 * number, 10 * number + 10),  # or behind
    ]
    swapped: list[int] = []
    places: list[tuple[int, int]] = []
    for char in digits:
        power //= 10
        digit = int(char)
        first = number - digit * power
        found.append(range(first if places else first + power, first + 10 * power, power))
        for other, place in places:
            if other != digit and (digit or place is not places[0][1]):
                swapped.append(number + (digit - other) * (place - power))
        places.append((digit, power))
    found += [swapped, _rotated(digits)]
    return chain.from_iterable(found)


def _rotated(digits: str) -> Iterator[int]:
    """Return the numbers with three digits in another order: 1016 for 1160."""
    for one, other, third in combinations(range(len(digits)), 3):
        first, second, last = digits[one], digits[other], digits[third]
        if first != second != last != first or (first, second, last).count(first) == 2 or second == last:
            for new in ((second, last, first), (last, first, second)):
                changed = list(digits)
                changed[one], changed[other], changed[third] = new
                if changed[0] != "0":
                    yield int("".join(changed))


def label_of(line: str, value: Value) -> frozenset[str]:
    """Return the words that name a number in a line."""
    before, after = line[max(0, value.start - 80) : value.start], line[value.end : value.end + 60]
    label = _name_before(before)
    if found := _AFTER.search(after):
        label = f"{label} {found[1]}"
    if found := _NEIGHBOUR.search(before):
        label = f"{label} {found[1]}"
    return name_words(label)


def _name_before(text: str) -> str:
    """Return the last words of a text before a number: up to four, each beginning with a letter, one space between."""
    end = len(text.rstrip(_NAMING_SIGNS))
    if not _NAMING.fullmatch(text, end):
        return ""
    start, name = end, ""
    for _ in range(MAX_NAME):
        word = _NAME_END.search(text, text.rfind(" ", 0, start) + 1, start)
        first = _LETTER.search(text, word.start(), start) if word else None
        if word is None or first is None:
            break
        name = text[first.start() : end]
        start = word.start() - 1
        if first.start() != word.start() or start < 1 or text[start] != " ":
            break
    return name


def name_words(text: str) -> frozenset[str]:
    """Return the words of a text that can name something."""
    words = frozenset(word for word in tokens(text) if len(word) >= MIN_LABEL and not word.isdigit())
    return words - small_words()
