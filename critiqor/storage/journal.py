"""The append-only journal of a run: one JSON object per line, written by any number of processes.

OpenClaw's timeline is read here too: it also only grows, and only the part that was sealed counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from critiqor.storage.atomic import AtomicFile, open_regular_file
from critiqor.storage.normalization import normalize_plugin_event

MAX_LINE = 8 << 20
"""Bytes. The recorder keeps records below 300 KB, so it did not write a longer line."""
CHUNK_BYTES = 1 << 16
"""Bytes read at once."""
BLOCK_BYTES = 1 << 17
"""The same for a journal that is read by lines."""


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


def read_chunks(path: Path, limit: int | None = None) -> Iterator[bytes]:
    """Yield the bytes of a journal or another file, or its first `limit` bytes, at most `CHUNK_BYTES` at once."""
    left = limit
    with open_regular_file(path) as file:
        while data := file.read(CHUNK_BYTES if left is None else min(CHUNK_BYTES, left)):
            yield data
            left = None if left is None else left - len(data)


def read_journal(path: Path, limit: int) -> Iterator[JournalLine]:
    """Yield the non-empty lines of a journal within its first `limit` bytes; nothing if it does not exist."""
    if limit <= 0:
        return  # also if something else than a file is in its place
    try:
        file = open_regular_file(path, buffering=1 << 18)
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


def whole_blocks(path: Path, limit: int) -> Iterator[bytes]:
    """Yield blocks of whole lines within the first `limit` bytes of a journal, up to the first that is cut or too long.

    It is for readers that give up at such a line, and faster than `read_journal`.
    """
    if limit <= 0:
        return
    try:
        file = open_regular_file(path)
    except FileNotFoundError:
        return
    with file:
        rest = b""
        left = limit
        while left > 0 and (data := file.read(min(left, BLOCK_BYTES))):
            left -= len(data)
            end = data.rfind(b"\n") + 1
            if end:
                yield rest + data[:end]
                rest = data[end:]
            else:
                rest += data
                if len(rest) > MAX_LINE:
                    return


class _Events(msgspec.Struct):
    events: list[msgspec.Raw]


def restore_journal(document: Path, journal: Path) -> None:
    """Write the journal of a recorder that has none, from the events of its session.json."""
    try:
        with open_regular_file(document) as file:
            events = msgspec.json.decode(file.read(), type=_Events).events
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    if events:
        with AtomicFile(journal) as file:
            for event in events:
                file.write(_journal_line(bytes(event)) + b"\n")


def _journal_line(event: bytes) -> bytes:
    try:
        decoded = msgspec.json.decode(event)
        if isinstance(decoded, dict) and isinstance(decoded.get("event_type", decoded.get("type")), str):
            return msgspec.json.encode(normalize_plugin_event(decoded))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass
    # Kept as it is, so that only this event counts as damaged. Line breaks occur only between JSON tokens.
    return event.replace(b"\n", b" ")
