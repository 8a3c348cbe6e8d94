"""Reading input files: JSON Lines or one JSON document, bounded; a broken line does not affect the others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from critiqor.errors import UsageError

MAX_VALUE_BYTES = 256 << 20
"""Largest JSON value, of a line or a whole file; decoding takes several times as much memory."""
_BINARY_FORMATS = {
    b"SQLite format 3\0": (
        "an SQLite database",
        "to export a session from OpenClaw's database: openclaw sessions export-trajectory --help",
    ),
    b"\x28\xb5\x2f\xfd": ("compressed (zstd)", "zstd -d FILE"),
    b"\x1f\x8b": ("compressed (gzip)", "gunzip FILE"),
    b"PK\x03\x04": ("an archive (zip)", "unzip FILE"),
}


_SAMPLED_VALUES = 50
"""Values at the beginning of a file from which its format is detected."""


class InputFile:
    """A file whose format is detected. Its beginning is read once, however many importers look at it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def entries(self) -> list[Entry]:
        """The first values of the file, or the problems with them."""
        return list(islice(read_entries(self.path), _SAMPLED_VALUES))

    @property
    def values(self) -> list[Any]:
        """The first JSON values of the file: of its lines, or of the whole document."""
        return [entry.value for entry in self.entries if entry.problem is None]


class Entry(NamedTuple):
    """One JSON value of a file, or the problem with it."""

    line: int
    value: Any
    problem: str | None


def read_entries(path: Path) -> Iterator[Entry]:
    """Yield every value of a file: one per line that is not empty, or one if the whole file is a single value."""
    document = _document(path)
    if document is not None:
        yield document
        return
    with path.open("rb", buffering=1 << 18) as file:
        number = 0
        while data := file.readline(MAX_VALUE_BYTES):
            number += 1
            if len(data) == MAX_VALUE_BYTES and not data.endswith(b"\n"):
                while (rest := file.readline(MAX_VALUE_BYTES)) and not rest.endswith(b"\n"):
                    pass
                yield Entry(number, None, "too long")
            elif not data.isspace():
                yield _entry(number, data)


def reject_binary_file(path: Path) -> None:
    """Raise UsageError if a file is missing or cannot be JSON."""
    if not path.is_file():
        problem = "is not a file" if path.exists() else "does not exist"
        raise UsageError(f"{path.name} {problem}", fix="critiqor import FILE")
    with path.open("rb") as file:
        start = file.read(16)
    for magic, (what, fix) in _BINARY_FORMATS.items():
        if start.startswith(magic):
            raise UsageError(f"{path.name} is {what}", fix=fix.replace("FILE", path.name))


def _document(path: Path) -> Entry | None:
    """Return the value of a file that is one value over several lines, else None."""
    with path.open("rb") as file:
        first = b"\n"
        while first.isspace():
            first = file.readline(MAX_VALUE_BYTES)
    if not first or _entry(1, first).problem is None or path.stat().st_size > MAX_VALUE_BYTES:
        return None
    document = _entry(1, path.read_bytes())
    return document if document.problem is None else None


def _entry(line: int, data: bytes) -> Entry:
    try:
        return Entry(line, msgspec.json.decode(data), None)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        # The standard library accepts what strict decoders reject: lone surrogates, a byte order mark, NaN.
        return Entry(line, json.loads(data.decode("utf-8-sig", "replace")), None)
    except RecursionError:
        return Entry(line, None, "too deep")
    except ValueError:
        return Entry(line, None, "not JSON")
