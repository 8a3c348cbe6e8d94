"""The rules of the trace event format, as viewers rely on them: a file that keeps them all is read as it is meant."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from typing import Any, NamedTuple

REQUIRED = {
    "X": {"ph", "ts", "dur", "pid", "tid", "cat", "name", "args"},
    "i": {"ph", "ts", "s", "pid", "tid", "cat", "name", "args"},
    "C": {"ph", "ts", "pid", "name", "args"},
    "M": {"ph", "ts", "pid", "name", "args"},
}
NAMING = {
    "process_name": ("name", str),
    "process_sort_index": ("sort_index", int),
    "thread_name": ("name", str),
    "thread_sort_index": ("sort_index", int),
}
EXACT = 1 << 53
"""Below it, a double counts."""
Event = dict[str, Any]


class TraceFile(NamedTuple):
    """A file that keeps the rules."""

    document: dict[str, Any]
    events: list[Event]

    def of(self, phase: str) -> list[Event]:
        return [event for event in self.events if event["ph"] == phase]

    def slices(self, category: str) -> list[Event]:
        return [event for event in self.of("X") if event["cat"] == category]

    @property
    def threads(self) -> dict[int, str]:
        """The names of threads by their numbers."""
        return {event["tid"]: event["args"]["name"] for event in self.of("M") if event["name"] == "thread_name"}

    @property
    def processes(self) -> dict[int, str]:
        return {event["pid"]: event["args"]["name"] for event in self.of("M") if event["name"] == "process_name"}

    def on(self, thread: str) -> list[Event]:
        """The slices of a thread."""
        return [event for event in self.of("X") if self.threads[event["tid"]] == thread]


def checked(data: bytes) -> TraceFile:
    """Hold a file against the rules."""
    text = data.decode()
    # Perfetto shows other escapes as they are, or refuses the file.
    assert re.search(r'\\[^"]', text) is None
    assert all(character.isprintable() or character == "\n" for character in text if character.isascii())
    document = json.loads(text, parse_constant=_refused)
    assert document["displayTimeUnit"] == "ms"
    assert all(isinstance(value, str) for value in document["otherData"].values())
    events = document["traceEvents"]
    for event in events:
        _check_event(event)
    _check_names(events)
    _check_nesting(events)
    return TraceFile(document, events)


def _refused(constant: str) -> Any:
    raise AssertionError(f"{constant} is no JSON")


def _check_event(event: Event) -> None:
    phase = event["ph"]
    thread = {"tid"} if event["name"].startswith("thread_") and phase == "M" else set()
    assert set(event) == REQUIRED[phase] | thread
    assert list(event)[:2] == ["ph", "ts"]
    for number in ("ts", "dur", "pid", "tid"):
        if number in event:
            assert type(event[number]) is int
            assert 0 <= event[number] < (1 << 32 if number in ("pid", "tid") else EXACT)
    assert event["pid"] > 0, "that of the kernel's idle task"
    assert isinstance(event["name"], str)
    assert 0 < len(event["name"]) <= 300
    if phase == "i":
        assert event["s"] in ("t", "p", "g")
    if phase == "C":
        assert all(isinstance(value, int | float) and not isinstance(value, bool) for value in event["args"].values())
    elif phase == "M":
        name, kind = NAMING[event["name"]]
        assert type(event["args"][name]) is kind
    for value in event["args"].values():
        assert isinstance(value, str | int | float | bool)
        assert not isinstance(value, str) or len(value) <= 300


def _check_names(events: list[Event]) -> None:
    """Every process and thread has one name, and no thread the number of another one or of a process."""
    processes: dict[int, set[str]] = defaultdict(set)
    threads: dict[int, set[tuple[int, str]]] = defaultdict(set)
    for event in events:
        if event["name"] == "process_name":
            processes[event["pid"]].add(event["args"]["name"])
        elif event["name"] == "thread_name":
            threads[event["tid"]].add((event["pid"], event["args"]["name"]))
    for event in events:
        assert len(processes[event["pid"]]) == 1
        if "tid" in event:
            assert [pid for pid, _ in threads[event["tid"]]] == [event["pid"]]
    assert not processes.keys() & threads.keys()


def _check_nesting(events: list[Event]) -> None:
    """The slices of a thread come in the order of their starts, an outer one first, and never overlap."""
    around: dict[int, list[Event]] = defaultdict(list)
    for event in events:
        if event["ph"] != "X":
            continue
        open_slices = around[event["tid"]]
        if open_slices:
            assert event["ts"] >= open_slices[-1]["ts"]
        last_start = open_slices[-1]["ts"] if open_slices else 0
        while open_slices and _end(open_slices[-1]) <= event["ts"]:
            closed = open_slices.pop()
            assert closed["ts"] < event["ts"] or closed["dur"] == 0
        if open_slices:
            assert _end(event) <= _end(open_slices[-1])
        assert event["ts"] >= last_start
        open_slices.append(event)


def _end(event: Event) -> int:
    end: int = event["ts"] + event["dur"]
    return end
