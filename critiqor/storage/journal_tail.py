"""Read a journal while it grows: its records in the order of writing, each as it would be sealed.

It takes no lock and writes nothing, so a recorder never waits for it. Nothing is read twice, and each read is bounded.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from critiqor.model import Event
from critiqor.storage.atomic import open_regular_file
from critiqor.storage.coverage import CoverageCounter
from critiqor.storage.event_merge import RecordReader
from critiqor.storage.journal import MAX_LINE, JournalLine
from critiqor.storage.record_filter import RecordFilter

MAX_READ_BYTES = 1 << 20
"""Maximum number of bytes that are read at once."""


class TailRead(NamedTuple):
    """What is new in a journal."""

    events: list[Event]
    """In the order of writing."""
    more: bool
    """Whether more can be read immediately."""


class JournalTail:
    """Reads what is appended to one journal. Every `read` continues where the previous one stopped."""

    def __init__(self, path: Path, filter_: RecordFilter, counter: CoverageCounter) -> None:
        self._path = path
        self._filter = filter_
        self._records = RecordReader(filter_, counter)
        self._offset = 0
        """Bytes that were read."""
        self._number = 0
        self._partial = b""
        """The beginning of the last line, which is not complete."""
        self._skipped = 0
        """Bytes of a line that is too long to be a record, as far as it was read."""

    @property
    def consumed(self) -> int:
        """Bytes of the journal up to the end of the last line that was read completely."""
        return self._offset - len(self._partial) - self._skipped

    def restart(self, counter: CoverageCounter) -> None:
        """Count what follows with another counter, which has counted the records so far."""
        self._records = RecordReader(self._filter, counter)

    def read(self, limit: int | None = None) -> TailRead:
        """Read what is new, up to `limit` bytes from the start of the journal."""
        size = MAX_READ_BYTES if limit is None else max(0, min(MAX_READ_BYTES, limit - self._offset))
        try:
            with open_regular_file(self._path) as journal:
                journal.seek(self._offset)
                data = journal.read(size) or b""
        except FileNotFoundError:
            return TailRead([], False)
        lines = self._lines(data)
        events = [event for line in lines if (event := self._event(line)) is not None]
        return TailRead(events, len(data) == MAX_READ_BYTES)

    def rest(self) -> list[Event]:
        """Return the last record of a journal that ends without a line break, and to which nothing is added."""
        data, offset = self._partial, self.consumed
        self._partial = b""
        if not data.strip():
            return []
        self._number += 1
        event = self._event(JournalLine(self._number, offset, len(data), data, terminated=False))
        return [] if event is None else [event]

    def _lines(self, data: bytes) -> list[JournalLine]:
        """Return the lines that are complete with these bytes, without empty ones."""
        found = []
        offset = self.consumed
        self._offset += len(data)
        *parts, self._partial = (self._partial + data).split(b"\n")
        for part in parts:
            self._number += 1
            length = self._skipped + len(part) + 1
            if self._skipped or length > MAX_LINE:
                found.append(JournalLine(self._number, offset, length, None, terminated=True))
                self._skipped = 0
            elif part and not part.isspace():
                found.append(JournalLine(self._number, offset, length, part + b"\n", terminated=True))
            offset += length
        if self._skipped or len(self._partial) >= MAX_LINE:
            self._skipped += len(self._partial)
            self._partial = b""
        return found

    def _event(self, line: JournalLine) -> Event | None:
        place = self._records.place(line)
        if place is None or line.data is None:
            return None
        return self._records.read(line.data[place.start :], place.event_id, line.number, line.offset + place.start)
