"""Recorded numbers with what they belong to: the names of their record and the words of their column or label."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import cast

import msgspec

from critiqor.diagnosis.claims.episode import EpisodeCall
from critiqor.diagnosis.claims.language import small_words
from critiqor.diagnosis.claims.recorded.records import Cell, Record, has_row, records_in
from critiqor.diagnosis.claims.recorded.units import NONE, Unit, unit_at, unit_of_name, unit_of_record
from critiqor.diagnosis.claims.values import Reading, Value, read_number, values_in

MAX_FACTS = 3_000
"""Maximum number of facts of an episode that are read."""
_WORD = re.compile(r"[^\W\d_]+|\d+(?=[^\W\d_])|(?<=[^\W\d_])\d+")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_BREAK = re.compile(r"[,;|()\[\]{}.]")
_NEAR_BEHIND = re.compile(r"[^,;:|()\[\]{}.\d]*")
_DIGIT = re.compile(r"\d")
_PLAIN = re.compile(r"-?\d+(?:\.\d+)?")
_STAMP = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d\S*)?$")
STEM = 5
MIN_WORD = 2


class Fact(msgspec.Struct, gc=False):
    """A recorded number. What is around it is read when it is first needed: most numbers are only compared."""

    number: float
    """The number in its most usual reading."""
    value: Value
    cell: Cell
    place: int
    """Position of its cell in the record."""
    common: Unit
    """The unit that its record names beside its numbers."""
    names: tuple[str, ...]
    """What its record is about, in lower case."""
    record: int
    """Number of its record."""
    call: EpisodeCall
    is_structured: bool
    known_unit: Unit | None = None
    known_keys: frozenset[str] | None = None
    known_series: str | None = None

    @property
    def readings(self) -> tuple[Reading, ...]:
        """What the number can mean."""
        return self.value.readings

    @property
    def text(self) -> str:
        """The number as it is written."""
        return self.value.text

    @property
    def decimals(self) -> int:
        """Its number of decimals in the most usual reading."""
        return self.value.readings[0].decimals

    @property
    def unit(self) -> Unit:
        """Its unit: beside it, in the name of its column, or of the whole record."""
        if self.known_unit is None:
            self.known_unit = _unit(self.cell, self.value, self.common)
        return self.known_unit

    @property
    def keys(self) -> frozenset[str]:
        """Beginnings of the words of its column, member or label."""
        if self.known_keys is None:
            is_named = self.is_structured
            self.known_keys = key_words(self.cell.name) if is_named else near_words(self.cell.text, self.value)
        return self.known_keys

    @property
    def series(self) -> str:
        """Numbers of one series are alike: a column, or members of one name."""
        if self.known_series is None:
            column = self.cell.name or (self.call.order, self.place)
            self.known_series = f"{self.call.tool} {column if self.is_structured else sorted(self.keys)}"
        return self.known_series

    @property
    def next_word(self) -> str:
        """Beginning of the word behind it: what is counted."""
        return "" if self.is_structured else next_word(self.cell.text, self.value.end)


def facts_of(calls: list[EpisodeCall]) -> list[Fact]:
    """Return the facts of outputs: the numbers that they contain, in order."""
    found: list[Fact] = []
    for call in calls:
        if not isinstance(call.known_facts, list):
            call.known_facts = list(_facts(records_of(call), call))
        found += cast("list[Fact]", call.known_facts)
        if len(found) > MAX_FACTS:
            return found[:MAX_FACTS]
    return found


def has_rows(call: EpisodeCall) -> bool:
    """Return whether an output states its facts in objects or rows, and not in sentences."""
    if call.known_rows is None:
        call.known_rows = _DIGIT.search(call.text) is not None and has_row(call.text)
    return call.known_rows


def given_facts(calls: list[EpisodeCall]) -> list[Fact]:
    """Return the facts of arguments: the numbers that they contain, in order."""
    found: list[Fact] = []
    for call in calls:
        if _DIGIT.search(call.facts):
            found += _facts(records_in(call.facts), call, sign=-1)
        if len(found) > MAX_FACTS:
            break
    return found[:MAX_FACTS]


def records_of(call: EpisodeCall) -> list[Record]:
    """Return the records from which the facts of an output are made; they are read once for all episodes."""
    if not isinstance(call.known_records, list):
        call.known_records = records_in(call.text) if _DIGIT.search(call.text) else []
    return cast("list[Record]", call.known_records)


def _facts(records: list[Record], call: EpisodeCall, sign: int = 1) -> Iterator[Fact]:
    for position, record in enumerate(records):
        number = sign * (call.order * MAX_FACTS + position + 1)
        names = tuple(name.lower() for name in record.names)
        common = unit_of_record(record.names) if record.is_structured else NONE
        if len(record.cells) > 1 and common.measure == "percent":
            common = NONE
        for place, cell in enumerate(record.cells):
            for value in _numbers(cell):
                yield Fact(value.number, value, cell, place, common, names, number, call, record.is_structured)


def _unit(cell: Cell, value: Value, common: Unit) -> Unit:
    unit = unit_at(cell.text, value.start, value.end) if value.end < len(cell.text) or value.start else NONE
    if unit is NONE:
        unit = unit_of_name(cell.name)
    return common if unit is NONE else unit


def _numbers(cell: Cell) -> list[Value]:
    text = cell.text
    if _PLAIN.fullmatch(text):
        return [Value("number", 0, len(text), text, read_number(text))]
    if not _DIGIT.search(text) or _STAMP.match(text):
        return []
    return [value for value in values_in(text) if value.kind == "number"]


def near_words(text: str, value: Value, *, behind: int = 3, before: int = 5) -> frozenset[str]:
    """Return the beginnings of the words around a number, by which a clause and a fact are compared."""
    first = _BREAK.split(text[max(0, value.start - 60) : value.start])[-1]
    last = _NEAR_BEHIND.match(text, value.end, value.end + 40)
    words = _words(first)[-before:] + (_words(last[0])[:behind] if last else [])
    return _stems(words)


def next_word(text: str, end: int) -> str:
    """Return the beginning of the word behind a number of a fact, by which claims are compared with it: 40 passed."""
    found = _NEXT.match(text, end)
    return found[1].lower()[:STEM] if found else ""


_NEXT = re.compile(r" ([^\W\d_]{4,})")


@lru_cache(maxsize=2_000)
def key_words(name: str) -> frozenset[str]:
    """Return the beginnings of the words in the name of a fact: `failedPercent`, `p99 ms`."""
    return _stems(_words(name))


def _words(text: str) -> list[str]:
    plain = text if text.islower() else _CAMEL.sub(" ", text)
    return [word.lower() for word in _WORD.findall(plain)]


def _stems(words: list[str]) -> frozenset[str]:
    return frozenset(word[:STEM] for word in words if len(word) >= MIN_WORD and word not in _ignored())


@cache
def _ignored() -> frozenset[str]:
    return small_words() | {"is", "of", "the", "in", "at", "on", "to", "de", "la", "le", "value", "result", "data"}
