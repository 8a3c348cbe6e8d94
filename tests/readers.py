"""The readers of files as functions of bytes: each returns, or raises an error that a user can act upon."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from critiqor.errors import CritiqorError
from critiqor.importers import read_traces
from critiqor.openclaw.json5 import Json5Error, parse_json5
from critiqor.storage import paths_for
from critiqor.storage import run_record as records
from critiqor.storage.event_merge import merged_events
from critiqor.storage.redaction import Redactor
from critiqor.storage.session_document import events_extent, read_coverage, read_sealed_events, readable_events
from critiqor.timeline import SummaryBuilder
from critiqor.timeline.reader.trace_stream import read_trace_parts

_KEPT = tempfile.TemporaryDirectory(prefix="critiqor-readers-")
_FOLDER = Path(_KEPT.name)
_RUN = "run_001"
CHUNK_BYTES = 5_000
"""Small, so that lines are cut everywhere."""


def _written(data: bytes, name: str) -> Path:
    path = _FOLDER / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def read_journal(data: bytes) -> None:
    """Lines of a journal to events."""
    for event in merged_events(_written(data, "journal.jsonl"), [], Redactor(b"key")):
        msgspec.json.encode(event)


def read_session(data: bytes) -> None:
    """A session.json to events and coverage."""
    document = _written(data, f"{_RUN}/session.json")
    for read in (lambda: list(read_sealed_events(document)), lambda: read_coverage(document)):
        with suppress(CritiqorError):
            read()
    msgspec.json.encode(list(readable_events(document)))
    events_extent(document)


def read_record(data: bytes) -> None:
    """A run record, its head, and what is left of it."""
    paths = paths_for(_FOLDER)
    _written(data, f"{_RUN}.json")
    for read in (records.load, records.load_head):
        with suppress(CritiqorError):
            msgspec.json.encode(read(paths, _RUN))
    records.readable_members(data)


def read_timeline(data: bytes) -> None:
    """A timeline to its summary and to the parts of a trace."""
    builder = SummaryBuilder()
    for start in range(0, len(data), CHUNK_BYTES):
        builder.feed(data[start : start + CHUNK_BYTES])
    msgspec.json.encode(builder.summary())
    msgspec.json.encode(list(read_trace_parts(_written(data, "timeline.jsonl"))))


def read_import(data: bytes) -> None:
    """A file in any format that can be imported."""
    with suppress(CritiqorError):
        for trace in read_traces(_written(data, "trace.json")):
            msgspec.json.encode(trace.events)


def read_json5(data: bytes) -> None:
    """A configuration of OpenClaw."""
    with suppress(Json5Error):
        parse_json5(data.decode("utf-8", "replace"))


READERS: dict[str, Callable[[bytes], None]] = {
    "journal": read_journal,
    "session": read_session,
    "record": read_record,
    "timeline": read_timeline,
    "import": read_import,
    "json5": read_json5,
}
