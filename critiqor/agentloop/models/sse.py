"""Incremental parser for server-sent events. How the bytes are split makes no difference."""

from __future__ import annotations

MAX_EVENT_BYTES = 16 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"


class EventTooLargeError(Exception):
    """A line or an event exceeds the size limit."""


class WholeBody:
    """Treats a response that is one document instead of events as a single event at its end."""

    def __init__(self) -> None:
        self._body = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Add bytes of a body without server-sent events; return no event."""
        self._body += data
        if len(self._body) > MAX_EVENT_BYTES:
            raise EventTooLargeError
        return []

    def finish(self) -> list[bytes]:
        """Return the whole body as the data of one event."""
        return [bytes(self._body)]


class EventParser:
    """Splits a stream of bytes into the data of its events."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._data: list[bytes] = []
        self._size = 0
        self._after_return = False
        """Whether the last byte was a carriage return, which belongs to a line feed that follows."""
        self._first = True

    def feed(self, data: bytes) -> list[bytes]:
        """Return the data of all events that end within these bytes."""
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
        """Return the data of an event without its final empty line, which some servers leave out."""
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
