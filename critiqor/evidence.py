"""From the journal and the lifecycle events to one sealed document: normalised, in true order, written once.

The journal is read twice, so that memory does not grow with the size of events: first for the order, keeping only ids
and places, then event by event in that order. Whatever cannot be read costs its own record, is counted and is named in
`coverage`; it is never blamed on the agent.
"""

from __future__ import annotations

import heapq
import os
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from critiqor.errors import BrokenRecordError
from critiqor.model import EVIDENCE_SCHEMA, Coverage, Damage, Event, EventType, Metrics, RecorderFacts
from critiqor.model.event import event_id_for, iso_from_ms, ms_from_iso, sequence_of
from critiqor.model.evidence import OpenCall
from critiqor.model.record import SessionRecord
from critiqor.redaction import Redactor, may_hold_secret
from critiqor.storage import AtomicFile, SessionPaths, read_journal

SEALED_MODE = 0o400
MOST_EXAMPLES = 20
_BATCH = 256
_CANONICAL = {
    "tool_result": EventType.TOOL_OUTPUT,
    "tool_execution_end": EventType.TOOL_OUTPUT,
    "memory_search": EventType.MEMORY,
    "memory_get": EventType.MEMORY,
    "after_provider_response": EventType.TOKEN_USAGE,
}
_REDACTED = re.compile(rb"\[redacted:([a-z_]+):[0-9a-f]{8}\]")

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
    """A recorder's event under its canonical name, in the full envelope; the name it had is kept as raw_event_type."""
    known = {name: event[name] for name in Event.__struct_fields__ if event.get(name) is not None}
    if not isinstance(known.get("payload", {}), dict):
        known["payload"] = {"value": known["payload"]}
    known.setdefault("event_type", str(event.get("type") or "unknown"))
    normalised: dict[str, Any] = msgspec.to_builtins(_canonical(msgspec.convert(known, Event, strict=False)))
    return normalised


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
        census = _Census()
        pieces: list[bytes] = []
        for event in merged_events(paths, record, redactor, census):
            census.count(event)
            observe(event)
            pieces.append((b",\n" if census.metrics.total_events > 1 else b"\n") + encode(event))
            if len(pieces) == _BATCH:
                file.write(b"".join(pieces))
                pieces.clear()
        file.write(b"".join(pieces))
        end = file.size
        coverage = census.coverage_of(redactor)
        file.write(b'\n],\n"metrics":' + encode(census.metrics) + b',\n"coverage":' + encode(coverage) + b"}\n")
    return SealedEvidence(file.digest, file.size, start, end, census.metrics, coverage)


def merged_events(
    paths: SessionPaths, record: SessionRecord, redactor: Redactor, census: _Census | None = None
) -> Iterator[Event]:
    """All events of a run up to its cut, in true order: the recorder's and the supervisor's."""
    census = census or _Census()
    cut = record.cut
    limit = cut.journal_bytes if cut else _size_of(paths.journal_path(record.run_id))
    lifecycle = record.event_log[: cut.lifecycle_events] if cut else record.event_log
    journal = _JournalReader(paths.journal_path(record.run_id), limit, redactor, census)
    supervised = (_redacted(msgspec.convert(event, Event), redactor) for event in lifecycle)
    return heapq.merge(journal.events(), supervised, key=lambda event: event.event_id)


def empty_evidence(run_id: str) -> bytes:
    """session.json before anything has happened."""
    head = {"schema_version": EVIDENCE_SCHEMA, "run_id": run_id, "session_id": run_id, "events": []}
    return encode({**head, "metrics": Metrics()}) + b"\n"


def adopt_session_document(paths: SessionPaths, run_id: str) -> None:
    """Evidence that was written straight into session.json, as older recorders do, becomes the journal."""
    journal, document = paths.journal_path(run_id), paths.evidence_summary_path(run_id)
    if journal.exists():
        return
    try:
        events = msgspec.json.decode(document.read_bytes())["events"]
    except (FileNotFoundError, msgspec.DecodeError, RecursionError, KeyError, TypeError):
        return
    if isinstance(events, list) and events:
        with AtomicFile(journal) as file:
            for event in events:
                file.write(encode(event) + b"\n")


def _redacted(event: Event, redactor: Redactor) -> Event:
    if not may_hold_secret(encode(event)):
        return event
    error = redactor.text(event.error) if event.error else event.error
    return msgspec.structs.replace(event, payload=redactor.value(event.payload), error=error)


def _size_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


class _JournalReader:
    """Reads the journal of one run in the order of its event ids, each record once."""

    def __init__(self, path: Path, limit: int, redactor: Redactor, census: _Census) -> None:
        self._path = path
        self._limit = limit
        self._redactor = redactor
        self._census = census
        self._ids: list[str] = []
        self._offsets = array("q")
        self._lengths = array("q")
        self._numbers = array("q")

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
            try:
                key = _decode_key(line.data)
            except (msgspec.DecodeError, RecursionError, ValueError) as error:
                kind = _kind_of(error, line.data) if line.terminated else "torn_tail"
                self._census.damaged(line.number, line.offset, kind)
                continue
            if not key.event_id.startswith("evt_"):
                moment = ms_from_iso(key.timestamp)
                if moment is None:
                    coverage.timestamps_replaced += 1
                latest = latest if moment is None else moment
                key.event_id = event_id_for(latest, "foreign", line.number)
            elif (moment := ms_from_iso(key.timestamp)) is not None:
                latest = moment
            self._ids.append(key.event_id)
            self._offsets.append(line.offset)
            self._lengths.append(line.length)
            self._numbers.append(line.number)

    def _read(self, descriptor: int, position: int, event_id: str) -> Event | None:
        data = os.pread(descriptor, self._lengths[position], self._offsets[position])
        try:
            event = _decode_event(data)
        except (msgspec.DecodeError, RecursionError, ValueError) as error:
            self._census.damaged(self._numbers[position], self._offsets[position], _kind_of(error, data))
            return None
        self._census.seen(data, event_id)
        if event.event_id != event_id:
            timestamp = event.timestamp if ms_from_iso(event.timestamp) is not None else _time_in(event_id)
            event = msgspec.structs.replace(event, event_id=event_id, timestamp=timestamp)
        if may_hold_secret(data):
            event = _redacted(event, self._redactor)
        return _canonical(event)


def _time_in(event_id: str) -> str:
    return iso_from_ms(int(event_id.split("_")[1], 36))


def _kind_of(error: Exception, data: bytes) -> str:
    if isinstance(error, RecursionError):
        return "too_deep"
    try:
        data.decode()
    except UnicodeDecodeError:
        return "invalid_utf8"
    message = str(error)
    if isinstance(error, msgspec.ValidationError):
        if "out of range" in message:
            return "number_out_of_range"
        return "wrong_type" if data.lstrip().startswith(b"{") else "not_an_object"
    if "surrogate" in message or "unicode" in message.lower():
        return "lone_surrogate"
    if "out of range" in message:
        return "number_out_of_range"
    return "invalid_json"


class _Census:
    """Counts what goes into the evidence, and what the recorder did not see."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.coverage = Coverage()
        self._types: Counter[str] = Counter()
        self._layers: Counter[str] = Counter()
        self._redacted: Counter[str] = Counter()
        self._highest: dict[str, int] = {}
        self._written: Counter[str] = Counter()
        self._open_calls: dict[tuple[str | None, str | None], list[OpenCall]] = {}
        self._open_requests: Counter[str | None] = Counter()
        self._running = False

    def damaged(self, line: int, offset: int, kind: str) -> None:
        coverage = self.coverage
        coverage.damaged_records += 1
        coverage.damage_by_kind[kind] = coverage.damage_by_kind.get(kind, 0) + 1
        if len(coverage.damage) < MOST_EXAMPLES:
            coverage.damage.append(Damage(line, offset, kind))

    def seen(self, data: bytes, event_id: str) -> None:
        """One readable record of the journal, as it stands there."""
        self.coverage.values_cut += data.count(b'"cut":true')
        if b"[redacted:" in data:
            self._redacted.update(kind.decode() for kind in _REDACTED.findall(data))
        place = sequence_of(event_id)
        if place is not None and place[0] != "foreign":
            writer, sequence = place
            self._written[writer] += 1
            self._highest[writer] = max(self._highest.get(writer, 0), sequence)

    def count(self, event: Event) -> None:
        kind = event.event_type
        self.metrics.total_events += 1
        self._types[kind] += 1
        self._layers[event.source_layer] += 1
        if event.status == "error":
            self.metrics.error_events += 1
        if event.source_layer == "supervisor":
            self._count_process(event)
        elif kind == EventType.RECORDER_ATTACHED:
            self._count_recorder(event)
        else:
            self.coverage.agent_events += 1
            self._count_pairs(event)

    def _count_process(self, event: Event) -> None:
        if event.event_type == EventType.PROCESS_START:
            self._running = True
        elif event.event_type == EventType.PROCESS_END:
            self._running = False

    def _count_recorder(self, event: Event) -> None:
        try:
            facts = msgspec.convert(event.payload, RecorderFacts, strict=False)
        except msgspec.ValidationError:
            facts = RecorderFacts()
        self.coverage.recorder_attached = True
        if len(self.coverage.recorders) < MOST_EXAMPLES:
            self.coverage.recorders.append(facts)
        for source, live in facts.sources.items():
            self.coverage.sources[source] = self.coverage.sources.get(source, False) or live

    def _count_pairs(self, event: Event) -> None:
        kind = event.event_type
        key = (event.agent_run_id, event.tool_call_id)
        if kind == EventType.TOOL_CALL:
            call = OpenCall(event.event_id, event.tool_name, event.tool_call_id)
            self._open_calls.setdefault(key, []).append(call)
        elif kind == EventType.TOOL_OUTPUT:
            calls = self._open_calls.get(key)
            if not calls:
                self.coverage.results_without_calls += 1
                return
            calls.pop(0)
            if not calls:
                del self._open_calls[key]
        elif kind == "before_provider_request":
            self._open_requests[event.agent_run_id] += 1
        elif kind == EventType.TOKEN_USAGE:
            self._open_requests[event.agent_run_id] -= 1
            if event.status == "ok" and not event.payload.get("usage"):
                self.coverage.responses_without_usage += 1

    def coverage_of(self, redactor: Redactor) -> Coverage:
        """What is known at the end."""
        coverage = self.coverage
        self.metrics.by_event_type = dict(sorted(self._types.items()))
        self.metrics.by_source_layer = dict(sorted(self._layers.items()))
        self.metrics.tool_calls = self._types[EventType.TOOL_CALL]
        holes = {writer: top - self._written[writer] for writer, top in self._highest.items()}
        coverage.missing_by_writer = {writer: count for writer, count in sorted(holes.items()) if count > 0}
        coverage.missing_records = max(0, sum(coverage.missing_by_writer.values()) - coverage.damaged_records)
        still_open = [call for calls in self._open_calls.values() for call in calls]
        coverage.calls_without_results = len(still_open)
        coverage.open_calls = still_open[:MOST_EXAMPLES]
        coverage.requests_without_responses = sum(count for count in self._open_requests.values() if count > 0)
        coverage.secrets_redacted = dict(sorted((self._redacted + redactor.counts).items()))
        coverage.sealed_while_running = self._running
        coverage.damage.sort(key=lambda damage: damage.line)
        coverage.notes = _notes(coverage)
        return coverage


def _notes(coverage: Coverage) -> list[str]:
    notes = []
    if not coverage.recorder_attached:
        notes.append("The recorder was never attached: what the agent did is not in this evidence.")
    elif coverage.agent_events == 0:
        notes.append("The recorder was attached and saw no agent activity.")
    if coverage.damaged_records:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(coverage.damage_by_kind.items()))
        notes.append(f"{coverage.damaged_records} journal records could not be read ({kinds}).")
    if coverage.missing_records:
        notes.append(f"{coverage.missing_records} records were lost before they reached the disk.")
    if coverage.calls_without_results:
        notes.append(f"{coverage.calls_without_results} tool calls have no result.")
    if coverage.requests_without_responses:
        notes.append(f"{coverage.requests_without_responses} model calls have no response.")
    if coverage.responses_without_usage:
        notes.append(f"{coverage.responses_without_usage} model calls did not say what they used.")
    if coverage.sealed_while_running:
        notes.append("Sealed while OpenClaw was still running: what came later is not in here.")
    return notes


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
    census = _Census()
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
            file.write((b",\n" if census.metrics.total_events > 1 else b"\n") + (line.data or b"").rstrip(b"\n"))
        census.coverage_of(Redactor(b""))
        file.write(b'\n],\n"metrics":' + encode(census.metrics) + b"}\n")
