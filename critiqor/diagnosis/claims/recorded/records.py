"""Records in outputs: objects of JSON, rows of tables, and lines of text, each with its names and its numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import msgspec

from critiqor.diagnosis.signals.text import decode_json

MAX_RECORDS = 600
"""Maximum number of records of one output that are read."""
MAX_NAME = 60
"""Maximum number of characters of a text that names a record."""
MAX_DEPTH = 8
_RULE = re.compile(r"^[\s|+:=_-]*$")
_GAP = re.compile(r"\s{2,}|\t")
_NUMERIC = re.compile(r"[-+~<>=]*\s?[€$£¥]?\s?-?\d[\d.,'\u00a0\u202f ]*\s?(?:[%€$£]|[a-zA-Z°µ/]{1,6})?")
_DATED = re.compile(r"\d{4}-\d\d-\d\d|\d\d?:\d\d")
_SIGNS = ("|", "\t", ";", ",")
_COUNTED = re.compile(r"\s*(\d[\d.,]*)\s+([^\W\d][^\d:=]{0,38}[^\s:=])\s*")
"""A count before the name of what is counted, as `uniq -c` prints it."""


class Cell(NamedTuple):
    """A value of a record with the name of its column or member."""

    name: str
    text: str


class Record(NamedTuple):
    """What belongs together in an output."""

    names: tuple[str, ...]
    """Texts that say what the record is about; the first one is its label."""
    cells: tuple[Cell, ...]
    is_structured: bool
    """Whether it is an object or a row, so that names and numbers can be distinguished."""


def records_in(text: str) -> list[Record]:
    """Return the records of an output, in order."""
    stripped = text.strip()
    if stripped[:1] in ("{", "["):
        try:
            return list(islice(_objects(decode_json(stripped), (), ""), MAX_RECORDS))
        except (msgspec.DecodeError, RecursionError):
            pass
    return list(islice(_lines(stripped), MAX_RECORDS))


def has_row(text: str) -> bool:
    """Return whether one of the records of an output is an object or a row with values; the rest is not read."""
    stripped = text.strip()
    if stripped[:1] in ("{", "["):
        return any(record.is_structured and record.cells for record in records_in(text))
    return any(record.is_structured and record.cells for record in islice(_lines(stripped), MAX_RECORDS))


def _objects(value: object, around: tuple[str, ...], path: str, depth: int = 0) -> Iterator[Record]:
    if depth > MAX_DEPTH:
        return
    if isinstance(value, list):
        cells = tuple(Cell(path, str(item)) for item in value if _holds_number(item))
        if cells:
            yield Record((*_texts(value), *around), cells, True)
        for item in value:
            if isinstance(item, dict | list):
                yield from _objects(item, around, path, depth + 1)
            elif isinstance(item, str) and " " in item and "\n" not in item:
                yield Record((*around, item), (Cell(path, item),), False)
    elif isinstance(value, dict):
        texts = {name: item for name, item in value.items() if isinstance(item, str)}
        names = tuple(item for item in texts.values() if _is_name(item))
        cells = tuple(
            Cell(f"{path} {name}" if path else str(name), str(item))
            for name, item in value.items()
            if _holds_number(item)
        )
        own = (*names, *around)
        if _is_list_of_names(value):
            for name, item in value.items():
                yield Record((str(name), *around), (Cell(path, str(item)),), True)
        elif cells or names:
            yield Record(own, cells, True)
        head = _head(value)
        for name, item in value.items():
            if head and isinstance(item, list) and item and all(_is_row(row, head) for row in item):
                rows = [dict(zip(head, row, strict=True)) for row in item]
                yield from _objects(rows, own, str(name), depth + 1)
                continue
            if isinstance(item, dict | list):
                inner = f"{path} {name}" if path and isinstance(item, dict) else str(name)
                # The key of an object is a name, if the keys beside it hold objects, too: {"north": {…}, "south": {…}}.
                yield from _objects(item, (str(name), *own) if isinstance(item, dict) else own, inner, depth + 1)
            elif isinstance(item, str) and (len(item) > MAX_NAME or "\n" in item):
                for record in _lines(item):
                    yield Record((*record.names, *own), record.cells, False)


def _is_list_of_names(value: dict[object, object]) -> bool:
    """Return whether an object lists things with a number each: {"Anna": 118, "Bert": 96}."""
    if len(value) < 2 or not all(map(_is_number, value.values())):
        return False
    return 2 * sum(_PROPER.match(str(name)) is not None for name in value) > len(value)


_PROPER = re.compile(r"[^\W\d_a-z]|.*[ -]")
"""The beginning of a name of something; members of an object begin with a small letter."""


def _texts(values: list[object]) -> list[str]:
    return [item for item in values if isinstance(item, str) and _is_name(item)]


def _is_name(text: str) -> bool:
    """Return whether a text says what a record is about, or in which unit its numbers are."""
    return (1 < len(text) <= MAX_NAME or text in "%€$£¥" or text.isupper()) and not _is_numeric(text)


def _head(value: dict[object, object]) -> list[str]:
    """Return the names of columns, if a member lists them: {"columns": ["region", "sum"], "rows": [["AMER", 6], …]}."""
    for item in value.values():
        if isinstance(item, list) and len(item) > 1 and all(isinstance(name, str) and name for name in item):
            return [str(name) for name in item]
    return []


def _is_row(row: object, head: list[str]) -> bool:
    return isinstance(row, list) and len(row) == len(head)


def _holds_number(value: object) -> bool:
    return _is_number(value) or (isinstance(value, str) and _is_numeric(value))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_numeric(text: str) -> bool:
    if len(text) > 24 or text[:1].isalpha():
        return False  # most texts are words, and no number begins with a letter
    return _NUMERIC.fullmatch(text.strip()) is not None and not _DATED.search(text)


def _lines(text: str) -> Iterator[Record]:
    """Yield the rows of tables and the other lines of a text."""
    block: list[str] = []
    sign = heading = ""
    for line in (*text.splitlines(), ""):
        if _RULE.match(line) and line.strip():
            continue  # a rule below the header
        own = _sign(line)
        if block and (own != sign or not _continues(line, block[-1], sign)):
            yield from _rows(block, sign)
            block = []
        if own:
            if own == " " and not block and heading and len(heading.split()) >= len(line.split()):
                block.append(heading)
            sign = own
            block.append(line)
        elif line.strip():
            yield from _line(line)
        heading = "" if own or _DIGIT.search(line) else line


def _continues(line: str, before: str, sign: str) -> bool:
    """Return whether a line has the columns of the row before it."""
    if sign == "#":
        return _COUNTED.fullmatch(line) is not None
    if sign != " ":
        return line.count(sign) == before.count(sign)
    if len(_GAP.split(line.strip())) > 2:
        return True
    return len(_GAP.split(before.strip())) <= 2 and len(line.split()) == len(before.split())


def _line(line: str) -> Iterator[Record]:
    if not _DIGIT.search(line):
        return  # nobody asks for a record without a number
    if line.lstrip().startswith("{"):
        try:
            yield from _objects(decode_json(line), (), "")
            return
        except (msgspec.DecodeError, RecursionError):
            pass
    yield Record((line.strip(),), (Cell("", line),), False)


_DIGIT = re.compile(r"\d")


def _sign(line: str) -> str:
    """Return what separates the columns of a line, if it can be a row; a number sign for a count with its name."""
    if "{" in line:
        return ""
    for sign in _SIGNS:
        if sign in line and (sign != "," or ", " not in line):
            cells = line.strip().strip("|").split(sign)
            if len(cells) > 1 and all(len(cell) <= MAX_NAME for cell in cells):
                return sign
    words = line.split()
    if not 3 <= len(words) <= 16:
        return "#" if len(words) == 2 and _COUNTED.fullmatch(line) else ""
    stripped = line.strip()
    is_gapped = stripped != " ".join(words) and len(_GAP.split(stripped)) > 2
    return " " if is_gapped or sum(map(_is_numeric, words)) * 2 >= len(words) else ""


def _rows(block: list[str], sign: str) -> Iterator[Record]:
    if len(block) == 1:
        yield from _line(block[0])
        return
    if sign == "#":
        for line in block:
            if counted := _COUNTED.fullmatch(line):
                yield Record((counted[2],), (Cell("", counted[1]),), True)
        return
    if sign == " ":
        rows = [[(match[0], match.start()) for match in _WORD.finditer(line)] for line in block]
    else:
        rows = [[(cell.strip().strip('"'), 0) for cell in line.strip().strip("|").split(sign)] for line in block]
    is_headed = not any(_is_numeric(cell) for cell, _ in rows[0]) and any(_is_numeric(cell) for cell, _ in rows[1])
    for row in rows[1:] if is_headed else rows:
        header = [""] * len(row)
        if is_headed:
            header = _columns(rows[0], row) if sign == " " else [cell for cell, _ in rows[0]]
        names = tuple(cell for cell, _ in row if (len(cell) > 1 or cell.isupper()) and not _is_numeric(cell))
        cells = tuple(Cell(name, cell) for name, (cell, _) in zip(header, row, strict=False) if _DIGIT.search(cell))
        yield Record(names, cells, True)


_WORD = re.compile(r"\S+")


def _columns(header: list[tuple[str, int]], row: list[tuple[str, int]]) -> list[str]:
    """Return the words of a header above each cell of a row: those that are nearest to it."""
    names: list[list[str]] = [[] for _ in row]
    for word, start in header:
        distances = [max(at - start - len(word), start - at - len(cell)) for cell, at in row]
        names[distances.index(min(distances))].append(word)
    return [" ".join(words) for words in names]
