"""Reading files of others: JSON Lines or one JSON document, bounded, and one bad line costs only itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from critiqor.errors import UsageError

LARGEST_DOCUMENT = 256 << 20
"""Bytes of one JSON value: a line, or a file that is one value; reading takes several times as much memory."""
_PACKED = {
    b"SQLite format 3\0": ("an SQLite database", "for OpenClaw's own: openclaw sessions export-trajectory --help"),
    b"\x28\xb5\x2f\xfd": ("compressed (zstd)", "zstd -d FILE"),
    b"\x1f\x8b": ("compressed (gzip)", "gunzip FILE"),
    b"PK\x03\x04": ("an archive (zip)", "unzip FILE"),
}


class Entry(NamedTuple):
    """One JSON value of a file, or why there is none."""

    line: int
    value: Any
    problem: str | None


def read_entries(path: Path) -> Iterator[Entry]:
    """Every value of a file: one for each line that is not empty, or one in all where the whole file is one value."""
    document = _document(path)
    if document is not None:
        yield document
        return
    with path.open("rb", buffering=1 << 18) as file:
        number = 0
        while data := file.readline(LARGEST_DOCUMENT):
            number += 1
            if len(data) == LARGEST_DOCUMENT and not data.endswith(b"\n"):
                while (rest := file.readline(LARGEST_DOCUMENT)) and not rest.endswith(b"\n"):
                    pass
                yield Entry(number, None, "too long")
            elif not data.isspace():
                yield _entry(number, data)


def refuse_what_is_no_text(path: Path) -> None:
    """Say what it is where a file can be no JSON at all."""
    if not path.is_file():
        problem = "is not a file" if path.exists() else "does not exist"
        raise UsageError(f"{path.name} {problem}", fix="critiqor import FILE")
    with path.open("rb") as file:
        start = file.read(16)
    for magic, (what, fix) in _PACKED.items():
        if start.startswith(magic):
            raise UsageError(f"{path.name} is {what}", fix=fix.replace("FILE", path.name))


def _document(path: Path) -> Entry | None:
    """The value of a file that is one value over several lines."""
    with path.open("rb") as file:
        first = b"\n"
        while first.isspace():
            first = file.readline(LARGEST_DOCUMENT)
    if not first or _entry(1, first).problem is None or path.stat().st_size > LARGEST_DOCUMENT:
        return None
    document = _entry(1, path.read_bytes())
    return document if document.problem is None else None


def _entry(line: int, data: bytes) -> Entry:
    try:
        return Entry(line, msgspec.json.decode(data), None)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        # It takes what strict readers refuse: lone surrogates, a byte order mark, numbers that are none.
        return Entry(line, json.loads(data.decode("utf-8-sig", "replace")), None)
    except RecursionError:
        return Entry(line, None, "too deep")
    except ValueError:
        return Entry(line, None, "not JSON")
