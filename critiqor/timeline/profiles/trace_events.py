"""Reader of Node's trace events, as a stream: counts by category, and the longest events by name.

Nearly all of them are about promises, hundreds of megabytes in a minute. These are counted without being decoded: the
lifetime of a promise says nothing about work. Arguments of events are never read: they can contain command lines and
paths.
"""

from __future__ import annotations

from collections import Counter
from heapq import nlargest

import msgspec

from critiqor.model.profiles import ArtifactTrouble, TraceCategory, TraceDuration
from critiqor.timeline.profiles.artifacts import Artifact, UnusableError
from critiqor.timeline.profiles.frame_names import short_event

BLOCK = 1 << 20
MAX_EVENT_BYTES = 1 << 20
"""Maximum size of an event in bytes."""
HEAD = b'{"traceEvents":['
END = b"]}"
SEPARATOR = b'},{"pid":'
"""Separates two events; it cannot occur within a text, where quotes are escaped."""
PROMISES = "node,node.async_hooks"
_PROMISE_CATEGORY = b'"cat":"' + PROMISES.encode() + b'"'
_LABELS = ("node.console", "usertiming")
"""Categories whose event names are texts of the program."""
THREAD_LIFETIME = "Environment"
"""Name of the event that lasts as long as its thread."""
LABEL = "(a label of the program)"
OTHERS = "(others)"
MAX_NAME_LENGTH = 500
MAX_DURATION_US = 1e13
"""Four months: a larger value is not a duration."""
MAX_NAMES = 10_000
MAX_OPEN = 10_000
"""Kinds of events of one process that have begun and not ended."""
MAX_NESTED = 1_000
"""Open events of one kind."""
MAX_CATEGORIES_LISTED = 20
MAX_DURATIONS_LISTED = 20


class _Event(msgspec.Struct, gc=False):
    ph: str
    cat: str = ""
    name: str = ""
    ts: float = 0.0
    dur: float = 0.0
    tid: int = 0
    id: str = ""


_events = msgspec.json.Decoder(list[_Event])
_event = msgspec.json.Decoder(_Event)


class _Durations(msgspec.Struct):
    count: int = 0
    total_us: float = 0.0
    max_us: float = 0.0

    def add(self, duration: float) -> None:
        self.count += 1
        self.total_us += duration
        self.max_us = max(self.max_us, duration)


class TraceEvents:
    """Adds up files of trace events. The files of one process must be added in order."""

    def __init__(self) -> None:
        self._categories: Counter[str] = Counter()
        self._durations: dict[tuple[str, str], _Durations] = {}
        self._open: dict[int | None, dict[tuple[object, ...], list[float]]] = {}

    def add(self, artifact: Artifact) -> ArtifactTrouble | None:
        """Add a file and return the problem with parts of it, if any. Raises UnusableError if nothing can be read."""
        reader = _Reader(self, artifact.pid)
        try:
            with artifact.path.open("rb", buffering=0) as file:
                head = file.read(len(HEAD))
                if head != HEAD:
                    raise UnusableError("torn" if HEAD.startswith(head) else "foreign")
                left = artifact.bytes - len(HEAD)
                while left > 0 and (data := file.read(min(BLOCK, left))):
                    left -= len(data)
                    reader.feed(data)
        except OSError:
            raise UnusableError("unreadable") from None
        return reader.finish()

    def count_promises(self, number: int) -> None:
        """Count promise events, which are not decoded."""
        self._categories[PROMISES] += number

    def take(self, pid: int | None, events: list[_Event]) -> None:
        """Take events of one process in order."""
        started = self._open.setdefault(pid, {})
        for event in events:
            self._count(event.cat[:MAX_NAME_LENGTH])
            phase = event.ph
            if phase == "X":
                self._ended(event, event.dur)
            elif phase in "Bb":
                begun = started.get(_key(event))
                if begun is None and len(started) < MAX_OPEN:
                    started[_key(event)] = [event.ts]
                elif begun is not None and len(begun) < MAX_NESTED:
                    begun.append(event.ts)
            elif phase in "Ee":
                begun = started.get(_key(event))
                if begun is not None:
                    self._ended(event, event.ts - begun.pop())
                    if not begun:
                        del started[_key(event)]

    def _count(self, category: str) -> None:
        known = category in self._categories or len(self._categories) < MAX_NAMES
        self._categories[category if known else OTHERS] += 1

    def _ended(self, event: _Event, duration: float) -> None:
        if event.name == THREAD_LIFETIME:
            return
        labelled = any(label in event.cat for label in _LABELS)
        key = (event.cat[:MAX_NAME_LENGTH], LABEL if labelled else event.name[:MAX_NAME_LENGTH])
        if key not in self._durations and len(self._durations) >= MAX_NAMES:
            key = (OTHERS, OTHERS)
        self._durations.setdefault(key, _Durations()).add(min(max(duration, 0.0), MAX_DURATION_US))

    @property
    def total(self) -> int:
        """Number of all events."""
        return self._categories.total()

    def categories(self) -> list[TraceCategory]:
        """Return the most frequent categories."""
        largest = nlargest(MAX_CATEGORIES_LISTED, self._categories.items(), key=lambda item: (item[1], item[0]))
        return [TraceCategory(category=short_event(name), events=number) for name, number in largest]

    def durations(self) -> list[TraceDuration]:
        """Return durations by name, those with the longest single event."""
        joined: dict[tuple[str, str], _Durations] = {}
        for (category, name), each in self._durations.items():
            same = joined.setdefault((short_event(category), short_event(name)), _Durations())
            same.count += each.count
            same.total_us += each.total_us
            same.max_us = max(same.max_us, each.max_us)
        longest = nlargest(MAX_DURATIONS_LISTED, joined.items(), key=lambda item: (item[1].max_us, item[0]))
        return [
            TraceDuration(
                name=name, category=category, count=each.count, total_ms=each.total_us / 1000, max_ms=each.max_us / 1000
            )
            for (category, name), each in longest
        ]


class _Reader:
    """Decodes the bytes of one file after its head; each portion may end anywhere."""

    def __init__(self, events: TraceEvents, pid: int | None) -> None:
        self._events = events
        self._pid = pid
        self._rest = b""
        self._damaged = False

    def feed(self, data: bytes) -> None:
        text = self._rest + data
        end = text.rfind(SEPARATOR)
        if end < 0:
            self._keep(text)
            return
        self._read(text[: end + 1])
        self._keep(text[end + 2 :])

    def _keep(self, rest: bytes) -> None:
        if len(rest) <= MAX_EVENT_BYTES:
            self._rest = rest
            return
        # Too long for an event. The part that is kept can be the beginning of the next separator.
        self._rest = rest[-len(SEPARATOR) :]
        self._damaged = True

    def finish(self) -> ArtifactTrouble | None:
        """Read the rest and return the problem with parts of the file, if any."""
        last = self._rest.rstrip()
        if last.endswith(END):
            self._read(last.removesuffix(END))
            return "damaged" if self._damaged else None
        # The process was killed or is still writing: the rest after the last separator can be half an event.
        self._one_by_one([_body(last)])
        return "torn"

    def _read(self, text: bytes) -> None:
        if not text:
            return
        pieces = _body(text).split(SEPARATOR)
        others = [piece for piece in pieces if _PROMISE_CATEGORY not in piece]
        if len(others) < len(pieces):
            self._events.count_promises(len(pieces) - len(others))
        if not others:
            return
        try:
            events = _events.decode(b'[{"pid":' + SEPARATOR.join(others) + b"}]")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self._one_by_one(others)
        else:
            self._events.take(self._pid, events)

    def _one_by_one(self, pieces: list[bytes]) -> None:
        for piece in pieces:
            try:
                event = _event.decode(b'{"pid":' + piece + b"}")
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                self._damaged = True
            else:
                self._events.take(self._pid, [event])


def _body(text: bytes) -> bytes:
    """Strip the beginning of the first event and the end of the last, as if separators surrounded them."""
    return text.removeprefix(b'{"pid":').removesuffix(b"}")


def _key(event: _Event) -> tuple[object, ...]:
    # Synchronous events are matched by thread, asynchronous ones by their id.
    name = event.name[:MAX_NAME_LENGTH]
    return (event.tid, name) if event.ph in "BE" else (event.id[:MAX_NAME_LENGTH], event.cat[:MAX_NAME_LENGTH], name)
