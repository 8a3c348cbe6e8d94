"""Write and read `session.json`: a header, one event per line, then metrics and, once sealed, coverage.

    {"schema_version": ..., "run_id": ..., "session_id": ..., "events":[
    {...},
    {...}
    ],
    "metrics": ...,
    "coverage": ...}

Every writer in Python uses `SessionDocumentWriter`; the recorder plugin writes the same layout (`snapshot.js`). Each
event is on its own line, so that they can be read one by one and copied without decoding them.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import IO, Protocol

import msgspec

from critiqor.errors import BrokenRecordError
from critiqor.model import EVIDENCE_SCHEMA, Coverage, Event, Metrics
from critiqor.storage import AtomicFile, SessionPaths, open_regular_file, read_journal
from critiqor.storage.journal import MAX_LINE

_BUFFER_BYTES = 1 << 18
_BLOCK_BYTES = 1 << 17
"""Bytes that are written at once."""
_EVENTS_END = b"\n],\n"
_METRICS = b'"metrics":'

_encoder = msgspec.json.Encoder()
encode = _encoder.encode
decode_event = msgspec.json.Decoder(Event).decode


class _Target(Protocol):
    def write(self, data: bytes | bytearray, /) -> object: ...


class SessionDocumentWriter:
    """Writes one session.json to an open file, event by event."""

    def __init__(self, file: _Target, run_id: str) -> None:
        self._file = file
        self._block = bytearray()
        """What is not written yet."""
        self._separator = b"\n"
        """What comes before the next event."""
        self._size = 0
        header = {"schema_version": EVIDENCE_SCHEMA, "run_id": run_id, "session_id": run_id}
        self._write(encode(header)[:-1] + b',"events":[')
        self.events_start = self._size
        """Offset in bytes of the first event."""
        self.events_end = self._size
        """Offset in bytes of the end of the last event, once the document is finished."""

    def add(self, event: bytes) -> None:
        """Add an event that is serialized as one line."""
        self._begin_event().extend(event)

    def add_event(self, event: Event) -> None:
        """Add an event."""
        _encoder.encode_into(event, self._begin_event(), -1)

    def finish(self, metrics: Metrics, coverage: Coverage | None = None) -> None:
        """Write metrics and, for sealed evidence, coverage after the events."""
        self._flush()
        self.events_end = self._size
        end = _EVENTS_END + _METRICS + encode(metrics)
        if coverage is not None:
            end += b',\n"coverage":' + encode(coverage)
        self._write(end + b"}\n")

    def _begin_event(self) -> bytearray:
        """Return what the next event is appended to."""
        if len(self._block) >= _BLOCK_BYTES:
            self._flush()
        self._block += self._separator
        self._separator = b",\n"
        return self._block

    def _flush(self) -> None:
        self._write(self._block)
        self._block.clear()

    def _write(self, data: bytes | bytearray) -> None:
        self._file.write(data)
        self._size += len(data)


def empty_document(run_id: str) -> bytes:
    """Return the session.json of a run in which nothing has happened yet."""
    file = BytesIO()
    SessionDocumentWriter(file, run_id).finish(Metrics())
    return file.getvalue()


def copy_journal(journal: Path, writer: SessionDocumentWriter) -> None:
    """Write a live session.json: the records of the journal, in the order of writing, under their recorded names.

    Invalid lines and an incomplete last line are left out.
    """
    metrics = Metrics()
    for line in read_journal(journal, journal.stat().st_size):
        if line.data is not None and _count(line.data, metrics):
            writer.add(line.data.strip())
    writer.finish(metrics)


def write_live_document(paths: SessionPaths, run_id: str) -> None:
    """Replace session.json of a run that is not sealed with what its journal holds now."""
    with AtomicFile(paths.evidence_summary_path(run_id)) as file:
        copy_journal(paths.journal_path(run_id), SessionDocumentWriter(file, run_id))


class _CountedEvent(msgspec.Struct):
    event_type: str
    source_layer: str = "extension_api"
    status: str = "ok"


_decode_counted = msgspec.json.Decoder(_CountedEvent).decode


def _count(data: bytes, metrics: Metrics) -> bool:
    """Count a record in the metrics; return whether it is one."""
    try:
        data.decode()  # the decoder does not check texts that it skips
        event = _decode_counted(data)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return False
    metrics.total_events += 1
    for counts, name in ((metrics.by_event_type, event.event_type), (metrics.by_source_layer, event.source_layer)):
        counts[name] = counts.get(name, 0) + 1
    metrics.error_events += event.status == "error"
    metrics.tool_calls += event.event_type == "tool_call"
    return True


def read_sealed_events(document: Path) -> Iterator[Event]:
    """Yield the events of a sealed session.json without reading all of it into memory.

    Raise `BrokenRecordError` at the first event that cannot be read: the file was changed after it was sealed.
    """
    for number, line in enumerate(_event_lines(document), 1):
        yield _decoded(document, number, line)


def readable_events(document: Path) -> Iterator[Event]:
    """Yield the events of a session.json that can be read, for showing what is left of one that was changed."""
    for number, line in enumerate(_event_lines(document), 1):
        with suppress(BrokenRecordError):
            yield _decoded(document, number, line)


def events_containing(document: Path, texts: Collection[str]) -> Iterator[Event]:
    """Yield the events of a sealed session.json that contain one of these texts, which are in lower case."""
    wanted = [text.encode() for text in texts]
    for number, line in enumerate(_event_lines(document), 1):
        lowered = line.lower()
        if any(text in lowered for text in wanted):
            yield _decoded(document, number, line)


def _decoded(document: Path, number: int, line: bytes) -> Event:
    try:
        return decode_event(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise changed_evidence(document, f"event {number}: {error}") from error


def changed_evidence(document: Path, reason: object) -> BrokenRecordError:
    """Return the error for a sealed session.json that cannot be read, with the command that locates the change."""
    run_id = document.parent.name
    message = f"the evidence of {run_id} was changed or damaged after it was sealed, and cannot be read: {reason}"
    return BrokenRecordError(message, fix=f"critiqor verify {run_id}")


def _event_lines(document: Path) -> Iterator[bytes]:
    with open_regular_file(document, buffering=_BUFFER_BYTES) as file:
        file.readline()
        for line in file:
            if line == b"],\n":
                return
            yield line.rstrip(b",\n")


def events_extent(document: Path) -> tuple[int, int] | None:
    """Return the offsets of the start and the end of the events of a sealed session.json; None if it has none."""
    with open_regular_file(document, buffering=_BUFFER_BYTES) as file:
        start = offset = len(file.readline().rstrip(b"\n"))
        end = None
        for line in file:
            if line == b"],\n":
                end = offset
                break
            offset += len(line)
    return None if end is None else (start, end)


class _DocumentEnd(msgspec.Struct):
    metrics: Metrics
    coverage: Coverage


def read_coverage(document: Path) -> Coverage:
    """Return the coverage that a sealed session document has, reading only its end.

    Raise `BrokenRecordError` if the file was changed so that it has none.
    """
    with open_regular_file(document, buffering=_BUFFER_BYTES) as file:
        size = file.seek(0, os.SEEK_END)
        window = 1 << 13  # that is enough for most
        while True:
            file.seek(max(0, size - window))
            data = file.read()
            start = data.rfind(_EVENTS_END + _METRICS)
            if start >= 0:
                return _decoded_end(document, b"{" + data[start + len(_EVENTS_END) :]).coverage
            if window >= size:
                raise changed_evidence(document, "its end is missing")
            window *= 4


def _decoded_end(document: Path, data: bytes) -> _DocumentEnd:
    try:
        return msgspec.json.decode(data, type=_DocumentEnd)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise changed_evidence(document, error) from error


def sealed_lines(document: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the events of a sealed session.json as bytes, with their offsets."""
    with open_regular_file(document, buffering=_BUFFER_BYTES, follow_links=False) as file:
        yield from evidence_lines(file)


def evidence_lines(file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield the events of a sealed session.json that is open as bytes, with their offsets."""
    offset = len(file.readline(MAX_LINE))
    while line := file.readline(2 * MAX_LINE):
        if line == b"],\n":
            return
        yield offset, line.rstrip(b",\n")
        offset += len(line)


def event_at(descriptor: int, offset: int, length: int) -> Event:
    """Read one event of the sealed evidence, which must be a whole line. Raise `ValueError` if it is not.

    Part of a line could be crafted to look like another event.
    """
    if not 0 < length <= 2 * MAX_LINE or offset < 1:
        raise ValueError("the index contains an invalid position")
    line = os.pread(descriptor, length + 2, offset - 1)
    if line[:1] != b"\n" or line[length + 1 :] not in (b",", b"\n"):
        raise ValueError("the index points to an incomplete event")
    return decode_event(line[1 : length + 1])
