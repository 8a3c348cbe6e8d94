"""From the journal and the lifecycle events to one sealed document: normalised, in true order, written once.

The journal is read twice, so that memory does not grow with the size of events: first for the order, keeping only ids
and places, then event by event in that order. Whatever cannot be read costs its own record, is counted and is named in
`coverage`; it is never blamed on the agent.
"""

from __future__ import annotations

import hashlib
import heapq
import json
import os
from array import array
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec

from critiqor.errors import BrokenRecordError
from critiqor.model import EVIDENCE_SCHEMA, Coverage, Event, EventType, Metrics
from critiqor.model.event import event_id_for, iso_from_ms, ms_from_iso, place_of
from critiqor.model.evidence import SealedFile
from critiqor.model.record import SessionRecord
from critiqor.storage import AtomicFile, SessionPaths, read_journal
from critiqor.storage.coverage import FOREIGN, CoverageCounter
from critiqor.storage.redaction import Redactor, may_hold_secret, rules_digest

SEALED_MODE = 0o400
DEEPEST = 100
"""Levels of nesting in a record; the recorder keeps to a dozen, and not every reader can take hundreds."""
_BATCH = 256
_DIGESTED = 1 << 20
"""Bytes that are read at once to digest a file."""
_CANONICAL = {
    "tool_result": EventType.TOOL_OUTPUT,
    "tool_execution_end": EventType.TOOL_OUTPUT,
    "memory_search": EventType.MEMORY,
    "memory_get": EventType.MEMORY,
    "after_provider_response": EventType.TOKEN_USAGE,
}
_RECORD_START = b'{"event_id":"evt_'
_RECORDER_LAYERS = frozenset({"extension_api", "tool_hooks"})

encode = msgspec.json.Encoder().encode
_decode_event = msgspec.json.Decoder(Event).decode


class _Key(msgspec.Struct):
    event_id: str = ""
    timestamp: str = ""


_decode_key = msgspec.json.Decoder(_Key).decode


class SealedEvidence(NamedTuple):
    """What was written, and what is known about it."""

    digest: str
    size: int
    events_start: int
    """Offset of the first event in the file."""
    events_end: int
    metrics: Metrics
    coverage: Coverage


def normalize_plugin_event(event: dict[str, Any]) -> dict[str, Any]:
    """A recorder's event under its canonical name, in the full envelope; the name it had is kept as raw_event_type.

    Takes whatever a recorder may have left out of the envelope from the payload, and never fails.
    """
    payload = event.get("payload")
    payload = payload if isinstance(payload, dict) else {} if payload is None else {"value": payload}
    kind = _text(event.get("event_type") or event.get("type")) or "unknown"
    error = event.get("error")
    error = error.get("message", error) if isinstance(error, dict) else error
    duration = event.get("duration_ms")
    failed = payload.get("isError") is True
    layer = "tool_hooks" if kind.startswith("tool_") else "extension_api"
    normalised = Event(
        event_id=_text(event.get("event_id")) or "",
        event_type=kind,
        raw_event_type=_text(event.get("raw_event_type")),
        timestamp=_text(event.get("timestamp")) or "",
        source_layer=_text(event.get("source_layer")) or layer,
        session_key=_text(event.get("session_key") or payload.get("sessionKey")),
        agent_run_id=_text(event.get("agent_run_id") or payload.get("runId")),
        tool_name=_text(event.get("tool_name") or payload.get("toolName") or payload.get("tool_name")),
        tool_call_id=_text(event.get("tool_call_id") or payload.get("toolCallId") or payload.get("tool_call_id")),
        status=_text(event.get("status")) or ("error" if failed else "ok"),
        error=_text(error),
        duration_ms=duration if isinstance(duration, int | float) else None,
        payload=payload,
    )
    return cast("dict[str, Any]", msgspec.to_builtins(_canonical(normalised)))


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _canonical(event: Event) -> Event:
    canonical = _CANONICAL.get(event.event_type)
    if canonical is not None:
        return msgspec.structs.replace(event, event_type=canonical, raw_event_type=event.event_type)
    if event.raw_event_type is None:
        return msgspec.structs.replace(event, raw_event_type=event.event_type)
    return event


def seal_evidence(
    paths: SessionPaths, record: SessionRecord, redactor: Redactor, observe: Callable[[Event], None]
) -> SealedEvidence:
    """Write the sealed session.json of a run, handing every event to `observe` on the way."""
    if record.cut is None:
        raise ValueError("the record says not yet where its evidence ends")
    run_id = record.run_id
    with AtomicFile(paths.evidence_summary_path(run_id), mode=SEALED_MODE) as file:
        head = {"schema_version": EVIDENCE_SCHEMA, "run_id": run_id, "session_id": run_id}
        file.write(encode(head)[:-1] + b',"events":[')
        start = file.size
        census = CoverageCounter()
        pieces: list[bytes] = []
        journal, lifecycle = paths.journal_path(run_id), record.event_log[: record.cut.lifecycle_events]
        limit = record.cut.journal_bytes
        for event in merged_events(journal, lifecycle, redactor, limit=limit, census=census):
            census.count(event)
            observe(event)
            pieces.append((b",\n" if census.metrics.total_events > 1 else b"\n") + encode(event))
            if len(pieces) == _BATCH:
                file.write(b"".join(pieces))
                pieces.clear()
        file.write(b"".join(pieces))
        end = file.size
        coverage = census.coverage_of(redactor)
        coverage.timeline = _sealed_file(paths.timeline_path(run_id), record.cut.timeline_bytes)
        file.write(b'\n],\n"metrics":' + encode(census.metrics) + b',\n"coverage":' + encode(coverage) + b"}\n")
    return SealedEvidence(file.digest, file.size, start, end, census.metrics, coverage)


def merged_events(
    journal: Path,
    lifecycle: list[Any],
    redactor: Redactor,
    *,
    limit: int | None = None,
    census: CoverageCounter | None = None,
) -> Iterator[Event]:
    """All events of a run in true order: the recorder's, up to `limit` bytes of the journal, and the supervisor's."""
    census = census or CoverageCounter()
    recorded = _JournalReader(journal, _size_of(journal) if limit is None else limit, redactor, census).events()
    # Sorted, because the clock can have been set back between two of them.
    supervised = sorted(_lifecycle_events(lifecycle, redactor, census), key=_event_id)
    return heapq.merge(recorded, supervised, key=_event_id)


def _event_id(event: Event) -> str:
    return event.event_id


def _lifecycle_events(lifecycle: list[Any], redactor: Redactor, census: CoverageCounter) -> Iterator[Event]:
    for number, entry in enumerate(lifecycle, 1):
        try:
            event = msgspec.convert(entry, Event)
        except msgspec.ValidationError:
            census.damaged(number, 0, "lifecycle")
            continue
        data = encode(event)
        census.redacted_before(data)
        yield _redacted(event, data, redactor)


def empty_evidence(run_id: str) -> bytes:
    """session.json before anything has happened."""
    head = {"schema_version": EVIDENCE_SCHEMA, "run_id": run_id, "session_id": run_id, "events": []}
    return encode({**head, "metrics": Metrics()}) + b"\n"


class _Document(msgspec.Struct):
    events: list[msgspec.Raw]


def adopt_session_document(document: Path, journal: Path) -> None:
    """Write the events that stand in session.json and in no journal, as with older recorders, into a journal."""
    try:
        events = msgspec.json.decode(document.read_bytes(), type=_Document).events
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    if events:
        with AtomicFile(journal) as file:
            for event in events:
                file.write(_adopted(bytes(event)) + b"\n")


def _adopted(event: bytes) -> bytes:
    try:
        decoded = msgspec.json.decode(event)
        if isinstance(decoded, dict) and isinstance(decoded.get("event_type", decoded.get("type")), str):
            return encode(normalize_plugin_event(decoded))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass
    # Left as it is, so that an unreadable one costs only itself. Within a text there is no line break.
    return event.replace(b"\n", b" ")


def _redacted(event: Event, data: bytes, redactor: Redactor) -> Event:
    # What comes before is the envelope, whose own names sound like secrets.
    starts = [start for start in (data.find(b'"error":'), data.find(b'"payload":')) if start >= 0]
    if not may_hold_secret(data, min(starts, default=0)):
        return event
    error = redactor.text(event.error) if event.error else event.error
    return msgspec.structs.replace(event, payload=redactor.value(event.payload), error=error)


def _size_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


class _JournalReader:
    """Reads the journal of one run in the order of its event ids, each record once."""

    def __init__(self, path: Path, limit: int, redactor: Redactor, census: CoverageCounter) -> None:
        self._path = path
        self._limit = limit
        self._redactor = redactor
        self._census = census
        self._ids: list[str] = []
        self._offsets = array("q")
        self._lengths = array("q")
        self._numbers = array("q")
        self._redacting_writers: set[str] = set()

    def events(self) -> Iterator[Event]:
        self._index()
        if not self._ids:
            return
        order: Iterable[int] = range(len(self._ids))
        if any(self._ids[i] > self._ids[i + 1] for i in range(len(self._ids) - 1)):
            order = sorted(order, key=self._ids.__getitem__)
        descriptor = os.open(self._path, os.O_RDONLY)
        try:
            previous = ""
            for position in order:
                event_id = self._ids[position]
                if event_id == previous:
                    self._census.coverage.duplicate_records += 1
                    continue
                event = self._read(descriptor, position, event_id)
                self._ids[position] = ""  # whoever keeps the event keeps its id
                if event is not None:
                    previous = event_id
                    yield event
        finally:
            os.close(descriptor)

    def _index(self) -> None:
        coverage = self._census.coverage
        coverage.journal_present = self._path.exists()
        coverage.journal_bytes = self._limit
        latest = 0
        for line in read_journal(self._path, self._limit):
            coverage.journal_lines += 1
            if line.data is None:
                self._census.damaged(line.number, line.offset, "too_long")
                continue
            start = 0
            try:
                key = _decode_key(line.data)
            except (msgspec.DecodeError, RecursionError, ValueError) as error:
                kind = _kind_of(error, line.data) if line.terminated else "torn_tail"
                self._census.damaged(line.number, line.offset, kind)
                # A writer that died within a record left no line break: the next record stands right behind.
                start = line.data.rfind(_RECORD_START, 1)
                try:
                    key = _decode_key(line.data[start:] if start > 0 else b"")
                except (msgspec.DecodeError, RecursionError, ValueError):
                    continue
            moment = ms_from_iso(key.timestamp)
            place = place_of(key.event_id)
            if moment is None:
                coverage.timestamps_replaced += 1
                moment = place.milliseconds if place else latest
            latest = moment
            self._ids.append(key.event_id if place else event_id_for(moment, FOREIGN, line.number))
            self._offsets.append(line.offset + start)
            self._lengths.append(line.length - start)
            self._numbers.append(line.number)

    def _read(self, descriptor: int, position: int, event_id: str) -> Event | None:
        data = os.pread(descriptor, self._lengths[position], self._offsets[position])
        try:
            event = _decode_event(data)
            if data.count(b"[") + data.count(b"{") > DEEPEST and _is_too_deep(event.payload):
                raise RecursionError
        except (msgspec.DecodeError, RecursionError, ValueError) as error:
            self._census.damaged(self._numbers[position], self._offsets[position], _kind_of(error, data))
            return None
        self._census.seen(data, event_id)
        event = _in_place(event, event_id)
        if not self._is_redacted(event):
            event = _redacted(event, data, self._redactor)
        return _canonical(event)

    def _is_redacted(self, event: Event) -> bool:
        """Whether its recorder has redacted it by these very rules; it says so in its first record."""
        place = place_of(event.event_id)
        if place is None or place.writer == FOREIGN:
            return False
        if event.event_type == EventType.RECORDER_ATTACHED and event.payload.get("redaction") == rules_digest():
            self._redacting_writers.add(place.writer)
        return place.writer in self._redacting_writers


def _in_place(event: Event, event_id: str) -> Event:
    """The event under the id that it is sorted by, with a time; what the supervisor sees, a journal cannot say."""
    if event.source_layer not in _RECORDER_LAYERS:
        event = msgspec.structs.replace(event, source_layer="extension_api")
    if event.event_id == event_id and ms_from_iso(event.timestamp) is not None:
        return event
    place = place_of(event_id)
    timestamp = iso_from_ms(place.milliseconds) if place else event.timestamp
    return msgspec.structs.replace(event, event_id=event_id, timestamp=timestamp)


def _is_too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEEPEST):
        nested = [item.values() if isinstance(item, dict) else item for item in level if isinstance(item, dict | list)]
        level = [item for items in nested for item in items]
    return bool(level)


def _kind_of(error: Exception, data: bytes) -> str:
    if isinstance(error, RecursionError):
        return "too_deep"
    try:
        data.decode()
    except UnicodeDecodeError:
        return "invalid_utf8"
    if isinstance(error, msgspec.ValidationError):
        if "out of range" in str(error):
            return "number_out_of_range"
        return "wrong_type" if data.lstrip().startswith(b"{") else "not_an_object"
    if b"\\ud" in data.lower() and _is_json_for_python(data):
        return "lone_surrogate"
    return "invalid_json"


def _is_json_for_python(data: bytes) -> bool:
    """Whether the standard library reads it: unlike strict readers, it takes lone surrogates."""
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


def digest_of(document: Path, limit: int | None = None) -> str | None:
    """`sha256:` and the digest of a file, or of its first `limit` bytes; None when it is gone."""
    digest = hashlib.sha256()
    left = limit
    try:
        with document.open("rb", buffering=0) as file:
            while data := file.read(_DIGESTED if left is None else min(_DIGESTED, left)):
                digest.update(data)
                left = None if left is None else left - len(data)
    except FileNotFoundError:
        return None
    return f"sha256:{digest.hexdigest()}"


def _sealed_file(path: Path, size: int | None) -> SealedFile | None:
    digest = digest_of(path, size) if size is not None else None
    return SealedFile(size, digest) if size is not None and digest is not None else None


_TAIL_MARK = b'\n],\n"metrics":'


def read_sealed_events(document: Path) -> Iterator[Event]:
    """The events of a sealed session.json, one by one, without reading all of it into memory."""
    with document.open("rb", buffering=1 << 18) as file:
        file.readline()
        for line in file:
            if line == b"],\n":
                return
            yield _decode_event(line.rstrip(b",\n"))


class _Tail(msgspec.Struct):
    metrics: Metrics
    coverage: Coverage


def read_coverage(document: Path) -> Coverage:
    """What a sealed session.json says about its own completeness."""
    return _read_tail(document).coverage


def _read_tail(document: Path) -> _Tail:
    with document.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        window = 1 << 16
        while True:
            file.seek(max(0, size - window))
            data = file.read()
            mark = data.rfind(_TAIL_MARK)
            if mark >= 0:
                return msgspec.json.decode(b"{" + data[mark + len(b"\n],\n") :], type=_Tail)
            if window >= size:
                raise BrokenRecordError(f"{document} is not a sealed session.json", fix="critiqor verify RUN")
            window *= 4


def write_live_evidence(paths: SessionPaths, run_id: str) -> None:
    """Write session.json as the recorder would: the journal so far, in the order of writing, under recorded names."""
    census = CoverageCounter()
    journal = paths.journal_path(run_id)
    with AtomicFile(paths.evidence_summary_path(run_id)) as file:
        head = {"schema_version": EVIDENCE_SCHEMA, "run_id": run_id, "session_id": run_id}
        file.write(encode(head)[:-1] + b',"events":[')
        for line in read_journal(journal, _size_of(journal)):
            try:
                event = _decode_event(line.data or b"")
            except (msgspec.DecodeError, RecursionError, ValueError):
                continue
            census.count(event)
            file.write((b",\n" if census.metrics.total_events > 1 else b"\n") + encode(event))
        census.coverage_of(Redactor(b""))
        file.write(b'\n],\n"metrics":' + encode(census.metrics) + b"}\n")
