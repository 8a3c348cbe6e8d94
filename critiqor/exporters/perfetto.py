"""Chrome trace events (JSON object format), for https://ui.perfetto.dev and chrome://tracing.

Times are microseconds since the first millisecond of the trace, whose absolute time is in `otherData`.

Perfetto's importer does not support all of JSON: it shows `\\u` escapes literally or rejects the file, and mishandles a
quote after a backslash. Therefore texts are UTF-8 with only quotes escaped. Older importers search for `ph` and `ts`
without parsing strings, so these two come first in each event.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

from critiqor.exporters.trace.lanes import lay_out
from critiqor.model.sanitize import sanitize
from critiqor.model.timestamps import iso_from_ms
from critiqor.model.trace import Counter, Instant, Slice, Trace, Track, label, tracks_of

MAX_PID = (1 << 31) - 1
"""Largest process id: importers store process and thread ids in 32 bits."""
CONTENTS = "names, ids and figures; arguments, outputs and messages stay in the evidence"
BACKSLASH = "\N{REVERSE SOLIDUS OPERATOR}"
_CHUNK_BYTES = 1 << 16
"""Size of a yielded chunk in bytes."""
_Event = dict[str, Any]

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def report(trace: Trace) -> Iterator[bytes]:
    """Yield the Chrome trace events in chunks."""
    start = trace.start_us // 1000 * 1000  # in whole milliseconds, like `started_at`
    other = {
        "producer": "critiqor",
        "run_id": trace.run_id,
        "started_at": iso_from_ms(start // 1000),
        "contents": CONTENTS,
    }
    if trace.notes:
        other["notes"] = _without_backslashes(sanitize(" ".join(trace.notes)))
    chunks = [f'{{"displayTimeUnit":"ms","otherData":{_encode(other)},"traceEvents":[']
    size = 0
    separator = "\n"
    for event in _events(trace, start):
        chunks.append(separator + _encode(event))
        separator = ",\n"
        size += len(chunks[-1])
        if size >= _CHUNK_BYTES:
            yield "".join(chunks).encode()
            chunks.clear()
            size = 0
    chunks.append("\n]}\n")
    yield "".join(chunks).encode()


def _events(trace: Trace, start: int) -> Iterator[_Event]:
    process_ids = _process_ids(trace)
    for index, process in enumerate(trace.processes):
        pid = process_ids[process.pid]
        yield _metadata(pid, None, "process_name", {"name": _text(process.name)})
        yield _metadata(pid, None, "process_sort_index", {"sort_index": index})
    # A thread is identified by its id alone, so ids must be unique among all threads and processes.
    last = max(process_ids.values(), default=0)
    first_lanes: dict[Track, int] = {}
    end = trace.end_us
    for track, slices in tracks_of(trace).items():
        placed = lay_out(slices, end)
        lanes = max((each.lane for each in placed), default=1)
        for lane in range(1, lanes + 1):
            name = _text(track.name) + (f", lane {lane}" if lane > 1 else "")
            yield _metadata(process_ids[track.pid], last + lane, "thread_name", {"name": name})
            yield _metadata(process_ids[track.pid], last + lane, "thread_sort_index", {"sort_index": last + lane})
        for each in placed:
            fields = {"ph": "X", "ts": each.start_us - start, "dur": each.end_us - each.start_us}
            ids = {"pid": process_ids[track.pid], "tid": last + each.lane}
            yield {**fields, **ids, **_title(each.slice), "args": _arguments(each.slice)}
        first_lanes[track] = last + 1
        last += lanes
    for instant in trace.instants:
        fields = {"ph": "i", "ts": instant.at_us - start, "s": "t"}
        ids = {"pid": process_ids[instant.track.pid], "tid": first_lanes[instant.track]}
        yield {**fields, **ids, **_title(instant), "args": _short(instant.facts)}
    for counter in trace.counters:
        yield from _counter_events(counter, process_ids[counter.pid], start)


def _counter_events(counter: Counter, pid: int, start: int) -> Iterator[_Event]:
    """Yield one counter event per figure, because viewers stack figures that share an event."""
    for name, figure in counter.figures.items():
        fields = {"ph": "C", "ts": counter.at_us - start, "pid": pid}
        yield {**fields, "name": f"{counter.name} {name}".rstrip(), "args": {counter.unit: figure}}


def _process_ids(trace: Trace) -> dict[int | None, int]:
    """Return the id of each process in the trace: its pid if that is valid, else the first free id."""
    numbers = {process.pid: process.pid or 0 for process in trace.processes}
    taken = {number for number in numbers.values() if 0 < number <= MAX_PID}
    free = (number for number in count(1) if number not in taken)
    return {pid: number if number in taken else next(free) for pid, number in numbers.items()}


def _metadata(pid: int, thread: int | None, name: str, arguments: dict[str, Any]) -> _Event:
    ids = {"pid": pid} if thread is None else {"pid": pid, "tid": thread}
    return {"ph": "M", "ts": 0, **ids, "name": name, "args": arguments}


def _title(item: Slice | Instant) -> _Event:
    return {"cat": item.category, "name": _text(item.name)}


def _arguments(slice_: Slice) -> _Event:
    flags = {"failed": slice_.failed, "unfinished": not slice_.finished}
    return {**_short(slice_.facts), **{name: True for name, is_set in flags.items() if is_set}}


def _short(facts: dict[str, Any]) -> _Event:
    return {name: _text(fact) if isinstance(fact, str) else fact for name, fact in facts.items()}


def _text(text: str) -> str:
    return _without_backslashes(label(text)) or "(no name)"


def _without_backslashes(text: str) -> str:
    """Replace backslashes in a text with a similar-looking character."""
    return text.replace("\\", BACKSLASH)
