"""The append-only journal of a run, as the recorder writes it: one JSON object a line, by any number of processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

MAX_LINE = 8 << 20
"""Bytes; the recorder keeps records below 300 KB, so a longer line is none of its own."""


class JournalLine(NamedTuple):
    """One line and where it stands. `data` is None for a line that is too long to be a record."""

    number: int
    offset: int
    length: int
    data: bytes | None
    terminated: bool


def read_journal(path: Path, limit: int) -> Iterator[JournalLine]:
    """The lines within the first `limit` bytes, empty ones left out; nothing when there is no journal."""
    try:
        file = path.open("rb", buffering=1 << 18)
    except FileNotFoundError:
        return
    with file:
        offset = 0
        number = 0
        while offset < limit:
            number += 1
            data = file.readline(min(MAX_LINE, limit - offset))
            if not data:
                return
            start, length = offset, len(data)
            offset += length
            whole = data.endswith(b"\n") or offset >= limit or length < MAX_LINE
            while not whole:
                rest = file.readline(min(MAX_LINE, limit - offset))
                offset += len(rest)
                whole = not rest or rest.endswith(b"\n") or offset >= limit
            if length == MAX_LINE:
                yield JournalLine(number, start, offset - start, None, True)
            elif not data.isspace():
                yield JournalLine(number, start, length, data, data.endswith(b"\n"))
