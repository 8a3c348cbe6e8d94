"""The arithmetic that a person would accept: rounding, units, sums, counts, differences, shares and averages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from critiqor.diagnosis.claims.recorded.clock_times import clock_seconds
from critiqor.diagnosis.claims.recorded.sorted_numbers import Sorted
from critiqor.diagnosis.claims.values import Reading, Value, recorded_numbers

MAX_NUMBERS = 400
"""Maximum number of different numbers that are kept."""
MAX_ADDED = 12
"""Maximum number of neighbouring numbers that are added up."""
MAX_GROUPED = 300
"""Maximum number of characters of a line whose words form groups."""
_UNITS = (1.0, 100.0, 0.01, 1e3, 1e-3, 1e6, 1e-6, 1e9, 1e-9)
_BINARY = tuple(1024.0**power for power in (-3, -2, -1, 1, 2, 3))
_HOUR = re.compile(r"(?<![\d:.,])(\d{1,2})\s?[ap]\.?m\b", re.IGNORECASE)
_KEYED = re.compile(r"\"([\w -]{1,40})\":\s?(-?\d+(?:\.\d+)?)")
_GROUP_WORD = re.compile(r"[^\W\d_]{3,}")
_ITEM_MARKS = ('{"', "},", "\n- ", "\n* ")


def tolerance(claimed: float, decimals: int) -> float:
    """Return by how much two numbers may differ that are the same when rounded: a claimed one and a recorded one."""
    exact = 0.5 * 10.0**-decimals + 1e-9
    if decimals == 0 and claimed and claimed % 10 == 0:
        # A round number may be rounded to fewer digits than it shows: 300, 1.2 million.
        digits = str(int(abs(claimed)))
        zeros = len(digits) - len(digits.rstrip("0"))
        return max(exact, min(0.5 * 10.0**zeros, 0.03 * abs(claimed)))
    return exact


_CELL = re.compile(r"\s*[|;]\s*")
MIN_CELLS = 3
"""Minimum number of cells of a line that lists numbers."""


class Numbers:
    """The numbers of texts, and what can be computed from them."""

    def __init__(self) -> None:
        self._recorded: dict[float, None] = {}
        self._totals: set[float] = set()
        """Sums and averages of columns and of members of the same name."""
        self._counts: set[float] = set()
        self._named: dict[str, list[float]] = {}
        """Numbers of members of JSON objects, by name."""
        self._groups: dict[tuple[str, str], list[float]] = {}
        """First and last number of each line, by the words of the line: what belongs to one word is often added up."""
        self._orders: dict[str, Sorted] = {}

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
        delimiter = _delimiter(lines)
        for line in lines:
            row = self._add_line(line, delimiter)
            for position, readings in enumerate(row):
                columns.setdefault(position, []).append(readings[0])
            words = dict.fromkeys(_GROUP_WORD.findall(line[:MAX_GROUPED].lower()))
            self._group("first", words, row[0][0] if row else 0.0)
            self._group("last", words, row[-1][0] if row else 0.0)
        members = _members(text)
        for column in (*columns.values(), *members.values()):
            self._add_list(column)
        for name, numbers in members.items():
            self._named.setdefault(name, []).extend(numbers)
        filled = sum(bool(line.strip()) for line in lines)
        self._counts |= {float(filled), float(filled - 1)}
        for mark in _ITEM_MARKS:
            if count := text.count(mark):
                self._counts |= {float(count), float(count + 1)}
        self._orders.clear()

    def add_numbers(self, text: str) -> None:
        """Read the numbers of a text only, which is enough to tell whether it states one."""
        lines = text.splitlines()
        delimiter = _delimiter(lines)
        for line in lines:
            self._add_line(line, delimiter)

    def _add_line(self, line: str, delimiter: str) -> list[tuple[float, ...]]:
        """Add the numbers and the times of a line; return the readings of its numbers."""
        row = _cells(line, delimiter) if delimiter else recorded_numbers(line)
        for readings in row:
            for number in readings:
                if number not in self._recorded:
                    self.add(number)
        for seconds in clock_seconds(line):
            self.add(seconds)
        for match in _HOUR.finditer(line) if "m" in line or "M" in line else ():
            self.add(float(match[1]) % 12 + 12)
        return row

    def add_sums(self, text: str) -> None:
        """Add the sums of neighbouring numbers of a text: a user lists amounts in a sentence."""
        numbers = [readings[0] for readings in recorded_numbers(text)][:MAX_ADDED]
        for start, first in enumerate(numbers):
            total = first
            for number in numbers[start + 1 :]:
                total += number
                self._totals.add(total)

    def add_rows(self, text: str) -> None:
        """Add the sums and averages of lines that list one number per name: `Ola 81 | Mette 47 | Ravi 92`."""
        for line in text.splitlines() if "|" in text or ";" in text else ():
            cells = _CELL.split(line.strip("| "))
            numbers = [found for cell in cells if (found := [one[0] for one in recorded_numbers(cell)])]
            if MIN_CELLS <= len(cells) == len(numbers) <= MAX_ADDED and all(len(found) == 1 for found in numbers):
                self._add_list([found[0] for found in numbers])

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

    def _order(self, name: str, numbers: Iterable[float]) -> Sorted:
        order = self._orders.get(name)
        if order is None:
            order = self._orders[name] = Sorted(numbers)
        return order

    def states(self, value: Value) -> bool:
        """Return whether a value was recorded itself, rounded or not, in the usual units."""
        return self._is_recorded(value.readings, (1.0, 100.0, 0.01))

    def has(self, value: Value) -> bool:
        """Return whether a value was recorded, in any unit and rounding, or is a total or a count."""
        if self._is_recorded(value.readings, (*_UNITS, *_BINARY)):
            return True
        counts = self._order("counts", self._counts)
        return any(counts.has(reading.number, tolerance(*reading)) for reading in value.readings)

    def _is_recorded(self, readings: tuple[Reading, ...], factors: tuple[float, ...]) -> bool:
        if len(factors) > 3:
            recorded = self._order("all amounts", map(abs, (*self._recorded, *self._totals)))
        else:
            recorded = self._order("amounts", map(abs, self._recorded))
        for number, decimals in readings:
            margin = tolerance(number, decimals)
            # A refund or a loss is often recorded as a negative number, and reported without the sign.
            if any(recorded.has(abs(number) / factor, margin / factor) for factor in factors):
                return True
        return False

    def is_near(self, number: float, margin: float) -> bool:
        """Return whether a number was recorded, or is a total."""
        return self._order("all", (*self._recorded, *self._totals)).has(number, margin)


def _delimiter(lines: list[str]) -> str:
    """Return the sign that separates the columns of a table: it is in every line, equally often."""
    filled = [line for line in lines if line.strip()]
    for sign in (";", "|", "\t", ","):
        if len(filled) > 1 and sign in filled[0] and len({line.count(sign) for line in filled}) == 1:
            return sign
    return ""


def _cells(line: str, delimiter: str) -> list[tuple[float, ...]]:
    return [numbers for cell in line.split(delimiter) for numbers in recorded_numbers(cell)]


def _members(text: str) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    if '":' in text:
        for name, number in _KEYED.findall(text):
            found.setdefault(name, []).append(float(number))
    return found


def written_forms(value: Value) -> Iterator[str]:
    """Yield the forms in which an output may write the result of a calculation: with and without separators."""
    yield value.text.lstrip("+")
    for number, decimals in value.readings:
        plain = f"{number:.{decimals}f}"
        yield plain
        yield f"{number:,.{decimals}f}"
        if decimals and plain.endswith("0"):
            yield plain.rstrip("0").rstrip(".")
