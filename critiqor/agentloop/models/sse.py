"""Server-sent events, taken apart as the bytes come. Where the bytes are cut makes no difference."""

from __future__ import annotations

MAX_EVENT_BYTES = 16 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"


class EventTooLargeError(Exception):
    """A line or an event has no end within reason."""


class WholeBody:
    """For a server that answers with one document instead of events: it is one event, at the end."""

    def __init__(self) -> None:
        self._body = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Nothing yet."""
        self._body += data
        if len(self._body) > MAX_EVENT_BYTES:
            raise EventTooLargeError
        return []

    def finish(self) -> list[bytes]:
        """The document."""
        return [bytes(self._body)]


class EventParser:
    """Takes bytes, gives the data of each event that is complete."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._data: list[bytes] = []
        self._size = 0
        self._after_return = False
        """The last byte was a carriage return, and a line feed that follows belongs to it."""
        self._first = True

    def feed(self, data: bytes) -> list[bytes]:
        """The data of all events that end within these bytes."""
        if self._after_return and data:
            self._after_return = False
            if data.startswith(b"\n"):
                data = data[1:]
        if data.endswith(b"\r"):
            self._after_return = True
        *ended, rest = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        events: list[bytes] = []
        for piece in ended:
            self._line += piece
            self._end_line(events)
        self._line += rest
        if len(self._line) + self._size > MAX_EVENT_BYTES:
            raise EventTooLargeError
        return events

    def finish(self) -> list[bytes]:
        """The data of an event whose last empty line never came; servers forget it at the end."""
        events: list[bytes] = []
        if self._line:
            self._end_line(events)
        self._end_line(events)
        return events

    def _end_line(self, events: list[bytes]) -> None:
        line = bytes(self._line)
        self._line.clear()
        if self._first:
            line = line.removeprefix(_BOM)
            self._first = False
        if not line:
            if self._data:
                events.append(b"\n".join(self._data))
            self._data = []
            self._size = 0
            return
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
            self._size += len(line)
