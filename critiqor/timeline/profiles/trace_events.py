"""Trace events of Node, read as a stream: counts by category, and the longest by name.

Nearly all of them tell of promises that come and go, hundreds of megabytes in a minute. Those are counted without being
decoded: how long a promise was there says nothing about work. Arguments of events are never looked at, because command
lines and paths are among them.
"""

from __future__ import annotations

from collections import Counter
from heapq import nlargest

import msgspec

from critiqor.model.profiles import ArtifactTrouble, TraceCategory, TraceDuration
from critiqor.timeline.profiles.artifacts import Artifact, UnusableError
from critiqor.timeline.profiles.places import short_event

BLOCK = 1 << 20
LONGEST_EVENT = 1 << 20
"""Bytes."""
HEAD = b'{"traceEvents":['
END = b"]}"
BETWEEN = b'},{"pid":'
"""Where one event ends and the next begins: within a text its quotes are escaped."""
PROMISES = "node,node.async_hooks"
_OF_PROMISES = b'"cat":"' + PROMISES.encode() + b'"'
_LABELS = ("node.console", "usertiming")
"""Categories whose names are the program's own texts."""
LIFE = "Environment"
"""As long as its thread was there."""
LABEL = "(a label of the program)"
OTHERS = "(others)"
LONGEST_NAME = 500
LONGEST_US = 1e13
"""Four months: what is longer is no duration."""
MOST_NAMES = 10_000
MOST_OPEN = 10_000
"""Kinds of events that have begun and not ended, in one process."""
MOST_NESTED = 1_000
"""Of one kind."""
TOLD_CATEGORIES = 20
TOLD_DURATIONS = 20


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
    """Adds up files of trace events. Those of one process must come in their order."""

    def __init__(self) -> None:
        self._categories: Counter[str] = Counter()
        self._durations: dict[tuple[str, str], _Durations] = {}
        self._open: dict[int | None, dict[tuple[object, ...], list[float]]] = {}

    def add(self, artifact: Artifact) -> ArtifactTrouble | None:
        """One more file; what was wrong with parts of it. Raises UnusableError where nothing could be read."""
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
        """Events of promises that were not decoded."""
        self._categories[PROMISES] += number

    def take(self, pid: int | None, events: list[_Event]) -> None:
        """Events of one process, in their order."""
        started = self._open.setdefault(pid, {})
        for event in events:
            self._count(event.cat[:LONGEST_NAME])
            phase = event.ph
            if phase == "X":
                self._ended(event, event.dur)
            elif phase in "Bb":
                begun = started.get(_key(event))
                if begun is None and len(started) < MOST_OPEN:
                    started[_key(event)] = [event.ts]
                elif begun is not None and len(begun) < MOST_NESTED:
                    begun.append(event.ts)
            elif phase in "Ee":
                begun = started.get(_key(event))
                if begun is not None:
                    self._ended(event, event.ts - begun.pop())
                    if not begun:
                        del started[_key(event)]

    def _count(self, category: str) -> None:
        known = category in self._categories or len(self._categories) < MOST_NAMES
        self._categories[category if known else OTHERS] += 1

    def _ended(self, event: _Event, duration: float) -> None:
        if event.name == LIFE:
            return
        labelled = any(label in event.cat for label in _LABELS)
        key = (event.cat[:LONGEST_NAME], LABEL if labelled else event.name[:LONGEST_NAME])
        if key not in self._durations and len(self._durations) >= MOST_NAMES:
            key = (OTHERS, OTHERS)
        self._durations.setdefault(key, _Durations()).add(min(max(duration, 0.0), LONGEST_US))

    @property
    def total(self) -> int:
        """All events."""
        return self._categories.total()

    def categories(self) -> list[TraceCategory]:
        """The most frequent ones."""
        largest = nlargest(TOLD_CATEGORIES, self._categories.items(), key=lambda item: (item[1], item[0]))
        return [TraceCategory(category=short_event(name), events=number) for name, number in largest]

    def durations(self) -> list[TraceDuration]:
        """By name, those with the longest single event."""
        joined: dict[tuple[str, str], _Durations] = {}
        for (category, name), each in self._durations.items():
            same = joined.setdefault((short_event(category), short_event(name)), _Durations())
            same.count += each.count
            same.total_us += each.total_us
            same.max_us = max(same.max_us, each.max_us)
        longest = nlargest(TOLD_DURATIONS, joined.items(), key=lambda item: (item[1].max_us, item[0]))
        return [
            TraceDuration(
                name=name, category=category, count=each.count, total_ms=each.total_us / 1000, max_ms=each.max_us / 1000
            )
            for (category, name), each in longest
        ]


class _Reader:
    """Takes the bytes of one file behind its head, however they are cut."""

    def __init__(self, events: TraceEvents, pid: int | None) -> None:
        self._events = events
        self._pid = pid
        self._rest = b""
        self._damaged = False

    def feed(self, data: bytes) -> None:
        text = self._rest + data
        end = text.rfind(BETWEEN)
        if end < 0:
            self._keep(text)
            return
        self._read(text[: end + 1])
        self._keep(text[end + 2 :])

    def _keep(self, rest: bytes) -> None:
        if len(rest) <= LONGEST_EVENT:
            self._rest = rest
            return
        # Too long to be an event. What is kept can be the beginning of the next gap between two.
        self._rest = rest[-len(BETWEEN) :]
        self._damaged = True

    def finish(self) -> ArtifactTrouble | None:
        """Read what is left; what was wrong with parts of the file."""
        last = self._rest.rstrip()
        if last.endswith(END):
            self._read(last.removesuffix(END))
            return "damaged" if self._damaged else None
        # The process was killed, or still writes: what stands behind the last gap can be half an event.
        self._one_by_one([_body(last)])
        return "torn"

    def _read(self, text: bytes) -> None:
        if not text:
            return
        pieces = _body(text).split(BETWEEN)
        others = [piece for piece in pieces if _OF_PROMISES not in piece]
        if len(others) < len(pieces):
            self._events.count_promises(len(pieces) - len(others))
        if not others:
            return
        try:
            events = _events.decode(b'[{"pid":' + BETWEEN.join(others) + b"}]")
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
    """Events without the beginning of the first and the end of the last, as they stand between two gaps."""
    return text.removeprefix(b'{"pid":').removesuffix(b"}")


def _key(event: _Event) -> tuple[object, ...]:
    # What begins and ends within a thread is told by the thread, what need not by its own number.
    name = event.name[:LONGEST_NAME]
    return (event.tid, name) if event.ph in "BE" else (event.id[:LONGEST_NAME], event.cat[:LONGEST_NAME], name)
