"""Evidence of Critiqor itself: `session.json`, sealed or not, and the record of a completed run.

The events are kept as they are. A sealed session.json also states what its recorder saw and missed, which is used as
long as its events do not contradict it: whether the file was changed since it was sealed is only known where its run
record is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from critiqor.errors import UsageError
from critiqor.importers.files import InputFile
from critiqor.importers.notes import ImportNotes
from critiqor.importers.trace import ImportedTrace
from critiqor.importers.values import as_text
from critiqor.model import EVIDENCE_SCHEMA, Coverage, Event
from critiqor.model.event import UNKNOWN
from critiqor.model.record import RECORD_SCHEMA
from critiqor.storage.coverage import CoverageCounter
from critiqor.storage.normalization import normalize_plugin_event
from critiqor.storage.redaction import Redactor

NAME = "critiqor_session"
_EVENTS = {EVIDENCE_SCHEMA: "events", RECORD_SCHEMA: "event_log"}
"""The member that holds the events, by schema."""
_SCHEMA = re.compile(r"critiqor\.(?:session|run)\.v\d+")
_START = re.compile(rb'\s*\{\s*"schema_version"\s*:\s*"critiqor\.(?:session|run)\.v\d+"')


def is_session_document(file: InputFile) -> bool:
    """Return whether a file is evidence or a run record of Critiqor, in this version of the schema or another."""
    with file.path.open("rb") as data:
        # Evidence can be large, so it is not decoded where its first bytes show what it is.
        if _START.match(data.read(256)):
            return True
    return len(file.entries) == 1 and any(_is_document(value) for value in file.values)


def _is_document(value: Any) -> bool:
    return isinstance(value, dict) and _SCHEMA.fullmatch(as_text(value.get("schema_version")) or "") is not None


def read_session_document(path: Path, key: bytes) -> Iterator[ImportedTrace]:
    """Yield the one run of a file. The key is not used: recorders replaced the secrets, and sealing does so again."""
    document = _decode(path)
    events, notes = _read_events(document[_EVENTS[document["schema_version"]]])
    counter = CoverageCounter()
    for event in events:
        counter.count(event)
    counted = counter.build_coverage(Redactor(key))
    stated = _stated_coverage(document)
    coverage = counted if stated is None or stated.agent_events != counted.agent_events else stated
    coverage.entries_not_understood += notes.not_understood
    coverage.notes += notes.sentences()
    yield ImportedTrace(
        trace_id=as_text(document.get("run_id")) or path.stem,
        format=NAME,
        events=events,
        notes=notes.sentences(),
        not_understood=notes.not_understood,
        coverage=coverage,
    )


def _decode(path: Path) -> dict[str, Any]:
    try:
        document = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        message = f"{path.name} is not the evidence of a run: {error}"
        raise UsageError(message, fix="critiqor import FILE") from error
    schema = str(document.get("schema_version"))
    if schema not in _EVENTS:
        raise UsageError(
            f"{path.name} has schema {schema}, but this version reads {' and '.join(_EVENTS)}",
            fix="pip install --upgrade critiqor",
        )
    if not isinstance(document.get(_EVENTS[schema]), list):
        message = f"{path.name} is not the evidence of a run: it has no list `{_EVENTS[schema]}`"
        raise UsageError(message, fix="critiqor import FILE")
    return document


def _read_events(entries: list[Any]) -> tuple[list[Event], ImportNotes]:
    events: list[Event] = []
    notes = ImportNotes()
    for number, entry in enumerate(entries, 1):
        event = _read_event(entry)
        if isinstance(event, Event):
            events.append(event)
        else:
            notes.add("events that could not be read", f"{number}: {event}", not_understood=True)
    return events, notes


def _read_event(entry: Any) -> Event | str:
    """Return an event, or why it cannot be read."""
    if not isinstance(entry, dict):
        return "not an object"
    try:
        event = msgspec.convert(normalize_plugin_event(entry), Event)
    except msgspec.ValidationError:
        return "wrong type"
    return "no type" if event.event_type == UNKNOWN else event


def _stated_coverage(document: dict[str, Any]) -> Coverage | None:
    try:
        return msgspec.convert(document.get("coverage"), Coverage)
    except msgspec.ValidationError:
        return None
