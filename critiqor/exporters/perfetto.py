"""Chrome trace events, which https://ui.perfetto.dev and chrome://tracing open: the JSON object format.

Times are microseconds from the first millisecond of the trace; when that was is in `otherData`.

The importer of Perfetto does not read all of JSON: it shows `\\u` escapes as they are, or refuses the whole file for
them, and takes the quote behind a backslash for one of the text. So texts are UTF-8 in which only quotes are escaped.
Older ones look for `ph` and `ts` without reading texts at all, so that these two come first in each event.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

from critiqor.exporters.trace.lanes import lay_out, tracks_of
from critiqor.model.event import iso_from_ms
from critiqor.model.sanitize import sanitize
from critiqor.model.trace import Counter, Instant, Slice, Trace, Track, label

HIGHEST_PID = (1 << 31) - 1
"""Importers keep process and thread ids in 32 bits."""
CONTENTS = "names, ids and figures; arguments, outputs and messages stay in the evidence"
BACKSLASH = "\N{REVERSE SOLIDUS OPERATOR}"
_PIECE = 1 << 16
"""Bytes that are handed on at a time."""
_Event = dict[str, Any]

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def report(trace: Trace) -> Iterator[bytes]:
    """The file, piece by piece."""
    start = trace.start_us // 1000 * 1000  # as exact as it is told
    other = {
        "producer": "critiqor",
        "run_id": trace.run_id,
        "started_at": iso_from_ms(start // 1000),
        "contents": CONTENTS,
    }
    if trace.notes:
        other["notes"] = _unescaped(sanitize(" ".join(trace.notes)))
    pieces = [f'{{"displayTimeUnit":"ms","otherData":{_encode(other)},"traceEvents":[']
    size = 0
    separator = "\n"
    for event in _events(trace, start):
        pieces.append(separator + _encode(event))
        separator = ",\n"
        size += len(pieces[-1])
        if size >= _PIECE:
            yield "".join(pieces).encode()
            pieces.clear()
            size = 0
    pieces.append("\n]}\n")
    yield "".join(pieces).encode()


def _events(trace: Trace, start: int) -> Iterator[_Event]:
    numbers = _process_numbers(trace)
    for place, process in enumerate(trace.processes):
        pid = numbers[process.pid]
        yield _naming(pid, None, "process_name", {"name": _text(process.name)})
        yield _naming(pid, None, "process_sort_index", {"sort_index": place})
    # A thread is known by its number alone, so that none may have that of another one, or of a process.
    last = max(numbers.values(), default=0)
    first_lanes: dict[Track, int] = {}
    end = trace.end_us
    for track, slices in tracks_of(trace).items():
        placed = lay_out(slices, end)
        lanes = max((each.lane for each in placed), default=1)
        for lane in range(1, lanes + 1):
            name = _text(track.name) + (f", lane {lane}" if lane > 1 else "")
            yield _naming(numbers[track.pid], last + lane, "thread_name", {"name": name})
            yield _naming(numbers[track.pid], last + lane, "thread_sort_index", {"sort_index": last + lane})
        for each in placed:
            head = {"ph": "X", "ts": each.start_us - start, "dur": each.end_us - each.start_us}
            whose = {"pid": numbers[track.pid], "tid": last + each.lane}
            yield {**head, **whose, **_told(each.slice), "args": _arguments(each.slice)}
        first_lanes[track] = last + 1
        last += lanes
    for instant in trace.instants:
        head = {"ph": "i", "ts": instant.at_us - start, "s": "t"}
        whose = {"pid": numbers[instant.track.pid], "tid": first_lanes[instant.track]}
        yield {**head, **whose, **_told(instant), "args": _short(instant.facts)}
    for counter in trace.counters:
        yield from _figures(counter, numbers[counter.pid], start)


def _figures(counter: Counter, pid: int, start: int) -> Iterator[_Event]:
    """One event a figure: viewers stack those that share one."""
    for name, figure in counter.figures.items():
        head = {"ph": "C", "ts": counter.at_us - start, "pid": pid}
        yield {**head, "name": f"{counter.name} {name}".rstrip(), "args": {counter.unit: figure}}


def _process_numbers(trace: Trace) -> dict[int | None, int]:
    """The number of each process in the trace: its pid, if that can be one, else the first that is free."""
    numbers = {process.pid: process.pid or 0 for process in trace.processes}
    taken = {number for number in numbers.values() if 0 < number <= HIGHEST_PID}
    free = (number for number in count(1) if number not in taken)
    return {pid: number if number in taken else next(free) for pid, number in numbers.items()}


def _naming(pid: int, thread: int | None, what: str, told: dict[str, Any]) -> _Event:
    whose = {"pid": pid} if thread is None else {"pid": pid, "tid": thread}
    return {"ph": "M", "ts": 0, **whose, "name": what, "args": told}


def _told(item: Slice | Instant) -> _Event:
    return {"cat": item.category, "name": _text(item.name)}


def _arguments(slice_: Slice) -> _Event:
    flags = {"failed": slice_.failed, "unfinished": not slice_.finished}
    return {**_short(slice_.facts), **{name: True for name, is_so in flags.items() if is_so}}


def _short(facts: dict[str, Any]) -> _Event:
    return {name: _text(fact) if isinstance(fact, str) else fact for name, fact in facts.items()}


def _text(text: str) -> str:
    return _unescaped(label(text)) or "(no name)"


def _unescaped(text: str) -> str:
    """A text with something that looks like a backslash in its place."""
    return text.replace("\\", BACKSLASH)
