"""The arithmetic that a person would accept: rounding, units, sums, counts, differences, shares and averages."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import pairwise

from critiqor.diagnosis.claims.values import Reading, Value, recorded_numbers

MAX_NUMBERS = 400
"""Maximum number of different numbers that are kept."""
MAX_COMBINED = 32
"""Maximum number of numbers that are combined with each other; of more, some pair has any result."""
MAX_ADDED = 12
"""Maximum number of neighbouring numbers that are added up."""
MAX_GROUPED = 300
"""Maximum number of characters of a line whose words form groups."""
LARGE = 1000
"""Shares, rates and changes in percent are smaller than this."""
_UNITS = (1.0, 100.0, 0.01, 1e3, 1e-3, 1e6, 1e-6, 1e9, 1e-9)
_BINARY = tuple(1024.0**power for power in (-3, -2, -1, 1, 2, 3))
_PERIODS = (60.0, 3600.0, 24.0, 7.0, 12.0, 52.0, 365.0)
_CLOCK = re.compile(r"(?<![\d:.])(\d{1,2}):([0-5]\d)(?::([0-5]\d)(?:[.,](\d+))?)?(?![\d:])")
_MAY_BE_TIME = re.compile(r":[0-5]\d")
_MINUTES = re.compile(r"(?<![\d:.])(\d{1,3}):([0-5]\d)[.,](\d+)")
_KEYED = re.compile(r"\"([\w -]{1,40})\":\s?(-?\d+(?:\.\d+)?)")
_GROUP_WORD = re.compile(r"[^\W\d_]{3,}")
_ITEM_MARKS = ('{"', "},", "\n- ", "\n* ")


def is_rounded(claimed: float, recorded: float, decimals: int) -> bool:
    """Return whether a recorded number, rounded as the claimed one is, equals it."""
    return abs(claimed - recorded) <= _tolerance(claimed, decimals)


def _tolerance(claimed: float, decimals: int) -> float:
    exact = 0.5 * 10.0**-decimals + 1e-9
    if decimals == 0 and claimed and claimed % 10 == 0:
        # A round number may be rounded to fewer digits than it shows: 300, 1.2 million.
        digits = str(int(abs(claimed)))
        zeros = len(digits) - len(digits.rstrip("0"))
        return max(exact, min(0.5 * 10.0**zeros, 0.03 * abs(claimed)))
    return exact


class _Sorted:
    """Numbers in order, so that one is found without comparing all."""

    def __init__(self, numbers: Iterable[float]) -> None:
        self.numbers = sorted(set(numbers))

    def has(self, number: float, tolerance: float) -> bool:
        place = bisect_left(self.numbers, number - tolerance)
        return place < len(self.numbers) and self.numbers[place] <= number + tolerance


class Numbers:
    """The numbers of texts, and what can be computed from them."""

    def __init__(self) -> None:
        self._recorded: dict[float, None] = {}
        self._totals: set[float] = set()
        """Sums and averages of columns and of members of the same name."""
        self._counts: set[float] = set()
        self._lists: list[list[float]] = []
        self._named: dict[str, list[float]] = {}
        """Numbers of members of JSON objects, by name."""
        self._groups: dict[tuple[str, str], list[float]] = {}
        """First and last number of each line, by the words of the line: what belongs to one word is often added up."""
        self._orders: dict[str, _Sorted] = {}

    @property
    def totals(self) -> set[float]:
        """Sums and averages of columns and of members of the same name."""
        return self._totals

    @property
    def recorded(self) -> list[float]:
        """The numbers themselves, in order."""
        return list(self._recorded)

    def add(self, number: float) -> None:
        """Add one number."""
        if len(self._recorded) < MAX_NUMBERS and number not in self._recorded:
            self._recorded[number] = None
            self._orders.clear()

    def add_text(self, text: str) -> None:
        """Read a text: its numbers, the sums of its columns, and the numbers of its lines and items."""
        lines = text.splitlines()
        columns: dict[int, list[float]] = {}
        everything: list[float] = []
        delimiter = _delimiter(lines)
        for line in lines:
            row = _cells(line, delimiter) if delimiter else recorded_numbers(line)
            for readings in row:
                for number in readings:
                    if number not in self._recorded:
                        self.add(number)
            for position, readings in enumerate(row):
                columns.setdefault(position, []).append(readings[0])
                everything.append(readings[0])
            for seconds in clock_seconds(line):
                self.add(seconds)
            words = dict.fromkeys(_GROUP_WORD.findall(line[:MAX_GROUPED].lower()))
            self._group("first", words, row[0][0] if row else 0.0)
            self._group("last", words, row[-1][0] if row else 0.0)
        members = _members(text)
        for column in (*columns.values(), *members.values()):
            self._add_list(column)
        for name, numbers in members.items():
            self._named.setdefault(name, []).extend(numbers)
        self._lists.append(everything[:MAX_COMBINED])
        filled = sum(bool(line.strip()) for line in lines)
        self._counts |= {float(filled), float(filled - 1)}
        for mark in _ITEM_MARKS:
            if count := text.count(mark):
                self._counts |= {float(count), float(count + 1)}
        self._orders.clear()

    def _group(self, place: str, words: Iterable[str], number: float) -> None:
        for word in words:
            group = self._groups.get((place, word))
            if group is not None:
                group.append(number)
            elif len(self._groups) < MAX_NUMBERS:
                self._groups[place, word] = [number]

    def close(self) -> None:
        """Add the sums and sizes of groups, once all texts are read."""
        for group in (*self._groups.values(), *self._named.values()):
            self._add_list(group)
        self._orders.clear()

    def _add_list(self, numbers: list[float]) -> None:
        if len(numbers) > 1:
            total = sum(numbers)
            self._totals |= {total, total / len(numbers)}
            self._counts.add(float(len(numbers)))

    def _order(self, name: str, numbers: Iterable[float]) -> _Sorted:
        order = self._orders.get(name)
        if order is None:
            order = self._orders[name] = _Sorted(numbers)
        return order

    def states(self, value: Value) -> bool:
        """Return whether a value was recorded itself, rounded or not, in the usual units."""
        return self._is_recorded(value.readings, (1.0, 100.0, 0.01))

    def has(self, value: Value) -> bool:
        """Return whether a value was recorded, in any unit and rounding, or is a total or a count."""
        if self._is_recorded(value.readings, (*_UNITS, *_BINARY)):
            return True
        counts = self._order("counts", self._counts)
        return any(counts.has(reading.number, _tolerance(*reading)) for reading in value.readings)

    def _is_recorded(self, readings: tuple[Reading, ...], factors: tuple[float, ...]) -> bool:
        recorded = self._order("recorded", (*self._recorded, *self._totals) if len(factors) > 3 else self._recorded)
        for number, decimals in readings:
            tolerance = _tolerance(number, decimals)
            if any(recorded.has(number / factor, tolerance / factor) for factor in factors):
                return True
        return False

    def derives(self, value: Value) -> bool:
        """Return whether a value follows from two recorded numbers, or from some neighbouring ones."""
        # Some pair of numbers gives nearly anything, so only the most usual reading counts, and rounding is exact.
        return self._derives(*value.readings[0])

    def _derives(self, claimed: float, decimals: int) -> bool:
        tolerance = _tolerance(claimed, decimals) if claimed % 100 == 0 else 0.5 * 10.0**-decimals + 1e-9
        if self._order("sums", self._partial_sums()).has(claimed, tolerance):
            return True
        numbers = [*dict.fromkeys((*self._totals, *self._counts, *self._recorded))][-MAX_COMBINED:]
        order = self._order("combined", numbers)
        for factor in _PERIODS:
            if order.has(claimed / factor, tolerance / factor) or order.has(claimed * factor, tolerance * factor):
                return True
        return _completes(claimed, tolerance, numbers, order.numbers)

    def _partial_sums(self) -> Iterable[float]:
        for numbers in self._lists:
            for start, first in enumerate(numbers):
                total = first
                for number in numbers[start + 1 : start + MAX_ADDED]:
                    total += number
                    yield total


def _completes(claimed: float, tolerance: float, numbers: list[float], order: list[float]) -> bool:
    """Return whether two of some numbers give the claimed one; `order` are the same numbers, sorted."""
    end = len(order)
    share = tolerance / abs(claimed) if claimed else 0.0
    changes = [change for change in (1 + claimed / 100, 1 - claimed / 100) if change > 0]
    for one in numbers:
        wanted = [(claimed - one, tolerance), (one - claimed, tolerance), (one + claimed, tolerance)]
        if one and claimed:
            ratio = claimed / one
            percent = 100 * (ratio - 1)  # so many percent more or less
            # Products, quotients, shares, rates.
            others: tuple[float, ...] = (ratio, 1 / ratio)
            if claimed < LARGE:
                others += (100 * ratio, 100 / ratio, 60 / ratio, 3600 / ratio, percent, -percent)
            for other in others:
                wanted.append((other, abs(other) * share + 1e-9))
            for change in changes if claimed < LARGE else ():
                # From one number to the other is a change of so many percent.
                margin = abs(one) * tolerance / 100 / change**2 + 1e-9
                wanted += [(one / change, margin), (one * change, margin)]
        for other, margin in wanted:
            place = bisect_left(order, other - margin)
            if place < end and order[place] <= other + margin:
                return True
    return False


def _delimiter(lines: list[str]) -> str:
    """Return the sign that separates the columns of a table: it is in every line, equally often."""
    filled = [line for line in lines if line.strip()]
    for sign in (";", "|", "\t", ","):
        if len(filled) > 1 and sign in filled[0] and len({line.count(sign) for line in filled}) == 1:
            return sign
    return ""


def _cells(line: str, delimiter: str) -> list[tuple[float, ...]]:
    return [numbers for cell in line.split(delimiter) for numbers in recorded_numbers(cell)]


def clock_seconds(line: str) -> list[float]:
    """Return the times of a line in seconds, and the differences of neighbouring ones."""
    if ":" not in line or not _MAY_BE_TIME.search(line):
        return []
    times = [float(match[1]) * 3600 + float(match[2]) * 60 + float(match[3] or 0) for match in _CLOCK.finditer(line)]
    minutes = [float(match[1]) * 60 + float(f"{match[2]}.{match[3]}") for match in _MINUTES.finditer(line)]
    return [*times, *minutes, *(abs(later - before) for before, later in pairwise(times))]


def _members(text: str) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    if '":' in text:
        for name, number in _KEYED.findall(text):
            found.setdefault(name, []).append(float(number))
    return found


def written_forms(value: Value) -> Iterator[str]:
    """Yield how outputs may write a number: with and without separators."""
    yield value.text.lstrip("+")
    for number, decimals in value.readings:
        plain = f"{number:.{decimals}f}"
        yield plain
        yield f"{number:,.{decimals}f}"
        if decimals and plain.endswith("0"):
            yield plain.rstrip("0").rstrip(".")
