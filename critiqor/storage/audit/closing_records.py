"""Closing records: how many records a recorder produced, and how many of them it could not write.

The space of the file is reserved when the recorder starts, so that it can be written on a full disk too. A closing
record without counts is that of a recorder that did not end properly.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from critiqor.storage.atomic import FILE_MODE, open_regular_file

SIZE = 512
"""Bytes of the file; the recorder plugin writes as many."""
MAX_FILES = 10_000
"""Maximum number of closing records that are read."""


class ClosingRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The closing record of one recorder."""

    writer: str
    pid: int
    produced: int | None = None
    """Null if the recorder did not end properly."""
    lost: int | None = None


class ClosingFile:
    """The file of one recorder, open from its first record to its end. Its methods never raise."""

    def __init__(self) -> None:
        self._descriptor: int | None = None

    def reserve(self, path: Path, writer: str) -> None:
        """Create the file without counts, unless it was created before."""
        if self._descriptor is None:
            with contextlib.suppress(OSError):
                self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
                self._write(ClosingRecord(writer=writer, pid=os.getpid()))

    def close(self, writer: str, produced: int, lost: int) -> None:
        """Write the counts and close the file."""
        if self._descriptor is None:
            return
        with contextlib.suppress(OSError):
            self._write(ClosingRecord(writer=writer, pid=os.getpid(), produced=produced, lost=lost))
        self.release()

    def release(self) -> None:
        """Close the file as it is."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
        self._descriptor = None

    def _write(self, record: ClosingRecord) -> None:
        assert self._descriptor is not None
        os.pwrite(self._descriptor, msgspec.json.encode(record).ljust(SIZE - 1) + b"\n", 0)


def read_closing_records(folder: Path, until: int | None = None) -> list[ClosingRecord]:
    """Return the closing records of a run; those that cannot be read, or are from later than a time, are left out.

    `until` is in milliseconds since 1970.
    """
    found = closing_files(folder)
    return [closing for closing, written in found if until is None or written // 1_000_000 <= until]


def closing_files(folder: Path) -> Iterator[tuple[ClosingRecord, int]]:
    """Yield the closing records of a run, and when each was written, in nanoseconds since 1970.

    What cannot be read, such as a pipe, is left out.
    """
    for path in sorted(folder.glob("recorder-*.json"))[:MAX_FILES]:
        try:
            with open_regular_file(path) as file:
                written = os.fstat(file.fileno()).st_mtime_ns
                yield msgspec.json.decode(file.read(SIZE + 1), type=ClosingRecord), written
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
