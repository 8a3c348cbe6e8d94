"""Helpers to write timelines, and trimmed timelines of real OpenClaws."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from critiqor.model import Event, iso_from_ms
from critiqor.model.timeline import TimelineSummary
from critiqor.storage.journal import CHUNK_BYTES
from critiqor.timeline import SummaryBuilder

START = 1_794_000_000_000
FIXTURES = Path(__file__).parent / "unit" / "fixtures"

Line = dict[str, Any]


def line(kind: str, name: str, at: float, *, pid: int | None = 1, **fields: Any) -> Line:
    """Return one line, `at` milliseconds after the beginning."""
    head = {"schemaVersion": "openclaw.diagnostics.v1", "type": kind, "timestamp": iso_from_ms(START + int(at))}
    return {**head, "name": name, **({} if pid is None else {"pid": pid}), **fields}


def start(name: str, span: str | None, at: float, **fields: Any) -> Line:
    known: Line = {} if span is None else {"spanId": span}
    return line("span.start", name, at, **known, **fields)


def end(name: str, span: str | None, at: float, took: float | None = None, **fields: Any) -> Line:
    known: Line = ({} if span is None else {"spanId": span}) | ({} if took is None else {"durationMs": took})
    return line("span.end", name, at, **known, **fields)


def span(name: str, span_id: str, begin: float, finish: float, **fields: Any) -> list[Line]:
    """Return the start and the end of a span."""
    return [start(name, span_id, begin, **fields), end(name, span_id, finish, finish - begin, **fields)]


def request(run: str, call: int, at: float, took: float, **fields: Any) -> Line:
    """Return a model call of an agent as OpenClaw writes it: with the agent's run id, and its start as its time."""
    ids = {"runId": run, "spanId": f"{run}:model:{call}"}
    return line("provider.request", "provider.request", at, **{**ids, "durationMs": took, "ok": True, **fields})


def sample(longest: float, at: float, active: str | None = None, **fields: Any) -> Line:
    known: Line = {} if active is None else {"activeSpanName": active}
    return line("eventLoop.sample", "eventLoop", at, maxMs=longest, **known, **fields)


def in_order(*lines: Line | list[Line]) -> list[Line]:
    """Return the lines sorted by time, as one process writes them."""
    flat = [each for some in lines for each in (some if isinstance(some, list) else [some])]
    return sorted(flat, key=lambda each: each["timestamp"])


def data_of(*lines: Mapping[str, Any] | bytes) -> bytes:
    """Encode lines as in the file; bytes are not changed."""
    return b"".join(
        each if isinstance(each, bytes) else json.dumps(each, separators=(",", ":")).encode() + b"\n" for each in lines
    )


def summary_of(*lines: Mapping[str, Any] | bytes) -> TimelineSummary:
    timeline = SummaryBuilder()
    data = data_of(*lines)
    for place in range(0, len(data), CHUNK_BYTES):
        timeline.feed(data[place : place + CHUNK_BYTES])
    return timeline.summary()


def problems(summary: TimelineSummary) -> dict[str, int]:
    """Return the problems with lines, by kind and subject."""
    found = [*summary.unreadable, *summary.irregular]
    return {each.kind if each.what is None else f"{each.kind} {each.what}": each.count for each in found}


def real_timeline(name: str) -> Path:
    """Read a trimmed timeline of a real OpenClaw."""
    return FIXTURES / f"timeline-{name}.jsonl"


def real_events(name: str) -> list[Event]:
    """Read the recorded events of the same run."""
    text = (FIXTURES / f"timeline-{name}-events.jsonl").read_bytes()
    return [msgspec.json.decode(each, type=Event) for each in text.splitlines()]


def without_line_numbers(value: Any) -> Any:
    """Return a summary, or a part of it, as plain values without line numbers."""
    if isinstance(value, dict):
        return {name: without_line_numbers(item) for name, item in value.items() if name not in ("line", "lines")}
    if isinstance(value, list):
        return [without_line_numbers(item) for item in value]
    return without_line_numbers(msgspec.to_builtins(value)) if isinstance(value, msgspec.Struct) else value
