"""A number is reported for another thing than the one it was recorded for: the rows of a table were mixed up."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from critiqor.diagnosis.claims.checked import CheckedClaim, Problem
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall, EpisodeText
from critiqor.diagnosis.claims.evidence import Evidence
from critiqor.diagnosis.claims.language import small_words
from critiqor.diagnosis.claims.numbers import Numbers
from critiqor.diagnosis.claims.speech import Speech, Stance
from critiqor.diagnosis.claims.values import Value
from critiqor.diagnosis.signals.text import decode_json
from critiqor.model.sanitize import excerpt

TYPE = "misreported_value"
MAX_ROWS = 120
"""Maximum number of rows of one table; a longer one is data that no answer repeats row by row."""
MAX_NAME = 60
MAX_TEXT = 8_000
"""Maximum number of characters of an output that is read as a table."""
MAX_COLUMNS = 4
"""Maximum number of numbers of a row: with more, a person reports a computed one."""
MIN_DIGITS = 2
_DEPTH = 3
_CELLS = re.compile(r"\s{2,}|\t|\s*[|;]\s*|,\s*(?=\D)|(?<=\D)\s*,\s*|(?<=\d),(?=\d{4}|\d{1,2}(?:,|$))")
_NUMBER = re.compile(r"[-+]?[$€£¥]?\d[\d.,' ]*\s?[%€$£¥]?[A-Za-z]{0,3}")
_NAME = re.compile(r"[^\W\d_][\w .'’&/()-]*")
_CLAUSE = re.compile(r"(?:[^,;:()—–，、；：（）。]|(?<=\d)[,:](?=\d))+")


class Row(NamedTuple):
    """One row of a table: what it is about, and its numbers."""

    name: str
    numbers: Numbers
    call: EpisodeCall
    written: str


Table = dict[str, Row]
"""Rows by name, in lower case; each name is in one row only."""


def check_bindings(episode: Episode, evidence: Evidence) -> list[CheckedClaim]:
    """Return the numbers that belong to another row of a table than the one that a text names."""
    claims: list[CheckedClaim] = []
    tables: list[Table] | None = None
    for text in (*episode.messages[-1:], *episode.outgoing):
        speech = episode.speech(text)
        if not speech.values:
            continue
        if tables is None:
            tables = [table for call in evidence.calls for table in _tables_of(call)]
        for table in tables:
            mentioned = {name for name in table if name in speech.lowered}
            if mentioned:
                claims += _mixed_up(text, speech, table, mentioned, evidence)
    return claims


def _tables_of(call: EpisodeCall) -> list[Table]:
    if not isinstance(call.known_tables, list):
        call.known_tables = _tables(call)
    return call.known_tables


def _tables(call: EpisodeCall) -> list[Table]:
    text = call.text.strip()
    if not text or len(text) > MAX_TEXT or call.meaning.state == "failure" or not any(map(str.isdigit, text)):
        return []
    if text[0] in "[{":
        try:
            rows = list(_json_rows(decode_json(text), 0))
        except msgspec.DecodeError:
            return []
    else:
        rows = [_text_rows(text)]
    return [table for found in rows if (table := _table(found, call))]


def _table(rows: list[tuple[str, str]], call: EpisodeCall) -> Table | None:
    if not 2 <= len(rows) <= MAX_ROWS:
        return None
    table: Table = {}
    for name, written in rows:
        numbers = Numbers()
        numbers.add_text(written)
        lowered = name.lower()
        if lowered in table or len(numbers.recorded) > MAX_COLUMNS * 2:
            return None  # two rows of the same name, or too much to compare
        if numbers.recorded and _is_telling(lowered):
            table[lowered] = Row(name, numbers, call, written)
    return table if len(table) > 1 else None


def _is_telling(name: str) -> bool:
    """Return whether a name is not found in a sentence by chance."""
    return (len(name) > MIN_DIGITS or not name.isascii()) and name not in small_words()


def _json_rows(value: Any, depth: int) -> Iterator[list[tuple[str, str]]]:
    """Yield the tables of a JSON answer: objects with a name and numbers each, or an object of named numbers."""
    if depth > _DEPTH:
        return
    if isinstance(value, dict):
        numbers = [(str(key), str(member)) for key, member in value.items() if _is_number(member)]
        if len(numbers) == len(value):
            yield numbers
        for member in value.values():
            if isinstance(member, dict | list):
                yield from _json_rows(member, depth + 1)
    elif isinstance(value, list):
        rows = [row for item in value[: MAX_ROWS + 1] if isinstance(item, dict) and (row := _json_row(item))]
        if len(rows) == len(value):
            yield rows


def _is_number(value: object) -> bool:
    if isinstance(value, str):
        return len(value) < MAX_NAME and _NUMBER.fullmatch(value) is not None
    return isinstance(value, int | float) and not isinstance(value, bool)


def _json_row(item: dict[str, Any]) -> tuple[str, str] | None:
    names = [value for value in item.values() if isinstance(value, str) and _NAME.fullmatch(value)]
    numbers = [str(value) for key, value in item.items() if _is_number(value) and key.lower() not in ("id", "ts")]
    name = next((name for name in names if len(name) <= MAX_NAME), None)
    return (name, "\n".join(numbers)) if name is not None and numbers else None


def _text_rows(text: str) -> list[tuple[str, str]]:
    """Return the rows of a table in a text: each line with one name and some numbers, side by side."""
    rows = []
    for line in text.splitlines():
        cells = [cell.strip(" \"'*") for cell in _CELLS.split(line.strip().strip("|")) if cell.strip()]
        if len(cells) == 1:
            cells = line.split(" ")  # one space between a name and its number
        names = [cell for cell in cells if _NAME.fullmatch(cell) and len(cell) <= MAX_NAME]
        numbers = [cell for cell in cells if _NUMBER.fullmatch(cell)]
        if len(names) == 1 and numbers and len(numbers) + 1 == len(cells):
            rows.append((names[0], "\n".join(numbers)))
    return rows


def _mixed_up(
    text: EpisodeText, speech: Speech, table: Table, mentioned: set[str], evidence: Evidence
) -> Iterator[CheckedClaim]:
    for stance in speech.stances:
        if stance.is_question:
            continue
        for row, value in _pairs(speech, stance, table, mentioned):
            other = _owner(row, value, table, evidence)
            if other is not None:
                yield _contradicted(text, stance, value, row, other)


def _pairs(speech: Speech, stance: Stance, table: Table, mentioned: set[str]) -> Iterator[tuple[Row, Value]]:
    """Yield the numbers of a statement with the row that it names for each.

    In a clause with one name, all numbers are about it; with several, if names and numbers alternate.
    """
    if stance.statement.cells:
        spans = [(stance.statement.start, stance.statement.end)]
    else:
        begin = stance.statement.start
        spans = [(begin + part.start(), begin + part.end()) for part in _CLAUSE.finditer(stance.statement.text)]
    for start, end in spans:
        values = [one for one in speech.values if start <= one.start and one.end <= end and one.kind == "number"]
        names = _names(speech.lowered, start, end, mentioned) if values else []
        rows = {table[name].name for _, name in names}
        if len(rows) == 1:
            yield from ((table[names[0][1]], value) for value in values)
        elif len(names) == len(values) and all(
            place < value.start and (number + 1 == len(names) or value.start < names[number + 1][0])
            for number, ((place, _), value) in enumerate(zip(names, values, strict=True))
        ):
            yield from ((table[name], value) for (_, name), value in zip(names, values, strict=True))


def _names(text: str, start: int, end: int, mentioned: set[str]) -> list[tuple[int, str]]:
    """Return the names in a part of a text with their places, in order; a longer name hides a part of it."""
    found: list[tuple[int, str]] = []
    for name in sorted(mentioned, key=len, reverse=True):
        at = text.find(name, start, end)
        while at >= 0:
            after = at + len(name)
            is_word = not name.isascii() or not (text[at - 1 : at].isalnum() or text[after : after + 1].isalnum())
            if is_word and not any(place <= at < place + len(other) for place, other in found):
                found.append((at, name))
            at = text.find(name, at + 1, end)
    return sorted(found)


def _owner(row: Row, value: Value, table: Table, evidence: Evidence) -> Row | None:
    """Return the row that a number belongs to, if it is another one and the number was recorded nowhere else."""
    if len(value.digits) < MIN_DIGITS or row.numbers.states(value) or row.numbers.derives(value):
        return None
    others = [other for other in table.values() if other is not row and other.numbers.states(value)]
    if len(others) != 1 or evidence.is_stated_apart(value, row.call):
        return None
    return others[0]


def _contradicted(text: EpisodeText, stance: Stance, value: Value, row: Row, other: Row) -> CheckedClaim:
    recorded = excerpt(" ".join(row.written.split()), 30)
    return CheckedClaim(
        text=text,
        start=value.start,
        end=value.end,
        kind="value",
        status="contradicted",
        reason=f"{row.call.name} printed {recorded} for {excerpt(row.name, 40)}",
        calls=[row.call],
        problem=Problem(
            type=TYPE,
            about=("row",),
            severity="high",
            confidence=80,
            title=f"Reported {excerpt(value.text, 30)} for {excerpt(row.name, 40)}, which is the value of "
            f"{excerpt(other.name, 40)}",
            explanation=f"The text says “{excerpt(stance.statement.text, 100)}”. {row.call.name} printed {recorded} "
            f"for {excerpt(row.name, 40)}.",
            recommendation="Have the agent copy each value together with the name beside it.",
        ),
    )
