"""Records in outputs, such as the contacts of a search: each with its values and those that name it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from critiqor.diagnosis.claims.call_arguments import MAX_DEPTH, named_values
from critiqor.diagnosis.claims.episode import EpisodeCall
from critiqor.diagnosis.signals.text import decode_json, tokens

MAX_RECORDS = 60
"""Maximum number of records of a list that are compared."""
MAX_NAME_WORDS = 6
_MIN_VALUE = 3
_STATE = re.compile(
    r"status|state|type|kind|role|priority|date|time|created|updated|currency|size|count|amount|total|price|score|unread"
    r"|read|url|link|timezone|language|lang|version|phone|note|comment|snippet|preview|body|text|message|content|description|summary",
    re.IGNORECASE,
)
"""Members that describe a record without naming it."""
_NAMED = re.compile(r"[A-ZÀ-ÞĀ-Ž\u0370-\uffff]|\d|@")
_CELLS = re.compile(r"\s{2,}|\t|\s*[|;,]\s*")


class Record(msgspec.Struct, frozen=True):
    """One entry of a list: its values, and those that name it."""

    values: tuple[str, ...]
    names: tuple[str, ...]

    @property
    def words(self) -> set[str]:
        """All words of the values of a record in a list."""
        return tokens(" ".join(self.values))

    def holds(self, value: str) -> bool:
        """Return whether a record in a list has this value."""
        return any(value == each.lower() for each in self.values)

    def title_beside(self, other: Record) -> str:
        """What a record in a list is called in a sentence that also names another one."""
        own = [name for name in self.names if name not in other.values]
        return (own or self.names or self.values)[0]


class Mismatch(msgspec.Struct, frozen=True, kw_only=True):
    """A request names one value, and a call used another one of the same kind."""

    call: EpisodeCall
    kind: str
    """What kind of value it is, as a noun."""
    wanted: str
    used: str
    used_forms: tuple[str, ...]
    """How a text can name what was used, in lower case."""


def lists_in(text: str) -> list[list[Record]]:
    """Return the lists of records in an output: lists of JSON objects, or the rows of a table."""
    stripped = text.strip()
    if stripped[:1] in "[{":
        try:
            return list(_lists(decode_json(stripped), 0))
        except msgspec.DecodeError:
            return []
    rows = [_row(line) for line in stripped.splitlines() if line.strip()]
    rows = [row for row in rows if len(row.values) >= 2]
    return [rows[:MAX_RECORDS]] if len(rows) >= 2 else []


def _lists(value: Any, depth: int) -> Iterator[list[Record]]:
    if depth > MAX_DEPTH:
        return
    if isinstance(value, list):
        records = [_record(each) for each in value[:MAX_RECORDS] if isinstance(each, dict)]
        if len(records) >= 2:
            yield records
    members = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for member in members:
        if isinstance(member, dict | list):
            yield from _lists(member, depth + 1)


def _record(value: dict[str, Any]) -> Record:
    leaves = list(named_values(value))
    names = [text for key, text in leaves if not _STATE.search(key) and _is_name(text)]
    return Record(tuple(text for _, text in leaves), tuple(names))


def _row(line: str) -> Record:
    cells = tuple(cell for each in _CELLS.split(line.strip().strip("|")) if (cell := each.strip(" \"'*<>()")))
    return Record(cells, tuple(cell for cell in cells if _is_name(cell)))


def _is_name(text: str) -> bool:
    """Return whether a value can name something: a few words, one of them a name, no state such as `open`."""
    return len(text) >= _MIN_VALUE and len(text.split()) <= MAX_NAME_WORDS and _NAMED.search(text) is not None
