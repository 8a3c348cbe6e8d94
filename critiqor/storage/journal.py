"""Read the append-only journal of a run: one JSON object per line, written by any number of processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

MAX_LINE = 8 << 20
"""Bytes. The recorder keeps records below 300 KB, so it did not write a longer line."""


class JournalLine(NamedTuple):
    """One line of a journal and its position."""

    number: int
    """From 1."""
    offset: int
    """Bytes from the start of the file."""
    length: int
    """Bytes."""
    data: bytes | None
    """None for a line that is too long to be a record."""
    terminated: bool
    """Whether it ends with a line break; only the last line can lack one."""


def read_journal(path: Path, limit: int) -> Iterator[JournalLine]:
    """Yield the non-empty lines within the first `limit` bytes; nothing if the file does not exist."""
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
            is_whole = data.endswith(b"\n") or offset >= limit or length < MAX_LINE
            while not is_whole:
                rest = file.readline(min(MAX_LINE, limit - offset))
                offset += len(rest)
                is_whole = not rest or rest.endswith(b"\n") or offset >= limit
            if length == MAX_LINE:
                yield JournalLine(number, start, offset - start, None, True)
            elif not data.isspace():
                yield JournalLine(number, start, length, data, data.endswith(b"\n"))
