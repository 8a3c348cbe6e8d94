"""Read the events of a run in true order: the recorders' from the journal, the supervisor's from the run record.

The journal is read twice, so that memory does not grow with the size of events: first for the order, then event by
event in that order. Most journals are in order already, and nothing is kept of them between the two; of others, ids and
offsets are. A record that cannot be read is left out, counted and named in the coverage; the diagnosis never attributes
it to the agent.
"""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from critiqor.model import Event
from critiqor.model.event import event_id_for, is_event_id, place_of
from critiqor.model.timestamps import iso_from_ms, ms_from_iso
from critiqor.storage import read_journal
from critiqor.storage.bounds import MAX_RECORD_DEPTH, is_too_deep
from critiqor.storage.coverage import FOREIGN, CoverageCounter, may_be_marked
from critiqor.storage.journal import JournalLine, whole_blocks
from critiqor.storage.normalization import set_canonical_name
from critiqor.storage.record_filter import RecordFilter
from critiqor.storage.redaction import Redactor
from critiqor.storage.session_document import decode_event, encode

_RECORD_START = b'{"event_id":"evt_'
_RECORDER_LAYERS = frozenset({"extension_api", "tool_hooks"})


class _SortKey(msgspec.Struct):
    event_id: str = ""
    timestamp: str = ""


_decode_key = msgspec.json.Decoder(_SortKey).decode


def merged_events(
    journal: Path,
    lifecycle: list[Any],
    redactor: Redactor,
    *,
    limit: int | None = None,
    counter: CoverageCounter | None = None,
) -> Iterator[Event]:
    """Yield all events of a run in true order: the first `limit` bytes of the journal merged with lifecycle events."""
    counter = counter or CoverageCounter()
    filter_ = RecordFilter(redactor)
    if limit is None:
        limit = journal.stat().st_size if journal.exists() else 0
    # Sorted, because the clock can have been set back between two of them.
    supervised = sorted(read_lifecycle(lifecycle, filter_, counter), key=lambda event: event.event_id)
    return _merged(_JournalReader(journal, limit, filter_, counter).events(), supervised)


def _merged(recorded: Iterator[Event], supervised: list[Event]) -> Iterator[Event]:
    """Merge two sorted series. The second is short, so most events are compared once, which `heapq.merge` cannot do."""
    waiting = iter(supervised)
    following = next(waiting, None)
    for event in recorded:
        while following is not None and following.event_id < event.event_id:
            yield following
            following = next(waiting, None)
        yield event
    if following is not None:
        yield following
        yield from waiting


def read_lifecycle(lifecycle: list[Any], filter_: RecordFilter, counter: CoverageCounter) -> Iterator[Event]:
    """Yield the lifecycle events of a run record without secrets; those that cannot be read are counted."""
    for number, entry in enumerate(lifecycle, 1):
        try:
            event = msgspec.convert(entry, Event)
        except msgspec.ValidationError:
            counter.count_damage(number, 0, "lifecycle")
            continue
        data = encode(event)
        counter.count_redactions(data)
        yield filter_.redacted_event(event, data)


class RecordPlace(NamedTuple):
    """A record within a line of a journal."""

    event_id: str
    """The id that it is sorted by."""
    start: int
    """Offset in the line: a writer that was killed left the beginning of another record before it."""


class RecordReader:
    """Reads the records of one journal as they are sealed, line by line, and counts them."""

    def __init__(self, filter_: RecordFilter, counter: CoverageCounter) -> None:
        self._filter = filter_
        self.counter = counter
        self._latest = 0
        """Milliseconds since 1970 of the last record."""

    def place(self, line: JournalLine) -> RecordPlace | None:
        """Find the record of a journal line, to merge it with the others; None if there is none, which is counted."""
        self.counter.coverage.journal_lines += 1
        if line.data is None:
            self.counter.count_damage(line.number, line.offset, "too_long", line.length)
            return None
        start = 0
        try:
            key = _decode_key(line.data)
        except (msgspec.DecodeError, RecursionError, ValueError) as error:
            kind = _damage_kind(error, line.data) if line.terminated else "torn_tail"
            self.counter.count_damage(line.number, line.offset, kind, line.length)
            # A writer that was killed within a record left no line break: the next record follows on this line.
            start = line.data.rfind(_RECORD_START, 1)
            try:
                key = _decode_key(line.data[start:] if start > 0 else b"")
            except (msgspec.DecodeError, RecursionError, ValueError):
                return None
        moment = ms_from_iso(key.timestamp)
        place = place_of(key.event_id)
        if moment is None:
            self.counter.coverage.timestamps_replaced += 1
            moment = place.milliseconds if place else self._latest
        self._latest = moment
        return RecordPlace(key.event_id if place else event_id_for(moment, FOREIGN, line.number), start)

    def read(self, data: bytes, event_id: str, number: int, offset: int) -> Event | None:
        """Return the event of a record to merge; None if it cannot be read, which is counted."""
        try:
            event = decode_event(data)
            if is_too_deep(data, event.payload):
                raise RecursionError
        except (msgspec.DecodeError, RecursionError, ValueError) as error:
            self.counter.count_damage(number, offset, _damage_kind(error, data))
            return None
        return self.kept(_with_place(event, event_id), data, may_be_marked(data))

    def kept(self, event: Event, data: bytes, is_marked: bool) -> Event:
        """Return a merged event as it is sealed, and count its record. A journal cannot claim the supervisor's layer.

        `is_marked` is whether the record may have values that were cut or redacted.
        """
        writer = self.counter.count_record(event.event_id, data)
        if is_marked:
            self.counter.count_marks(data)
        if event.source_layer not in _RECORDER_LAYERS:
            event = msgspec.structs.replace(event, source_layer="extension_api")
        if writer not in self._filter.redacting_writers:
            event = self._filter.recorded_event(event, data, writer)
        set_canonical_name(event)
        return event


class _JournalReader:
    """Reads the journal of one run in the order of event ids, each record once."""

    def __init__(self, path: Path, limit: int, filter_: RecordFilter, counter: CoverageCounter) -> None:
        self._path = path
        self._limit = limit
        self._counter = counter
        self._records = RecordReader(filter_, counter)
        self._ids: list[str] = []
        self._offsets = array("q")
        self._lengths = array("q")
        self._numbers = array("q")

    def events(self) -> Iterator[Event]:
        coverage = self._counter.coverage
        coverage.journal_present = self._path.exists()
        coverage.journal_bytes = self._limit
        lines = self._lines_in_order()
        if lines is not None:
            coverage.journal_lines = lines
            return self._in_order_of_writing()
        self._index()
        return self._in_order_of_ids()

    def _lines_in_order(self) -> int | None:
        """Return the number of lines; None unless all of them are records with valid ids and times, and in order."""
        lines = size = 0
        previous = ""
        is_time, is_id = datetime.fromisoformat, is_event_id
        try:
            for block in whole_blocks(self._path, self._limit):
                records = block.split(b"\n")[:-1]
                for key in map(_decode_key, records):
                    event_id = key.event_id
                    if event_id < previous or not is_id(event_id):
                        return None
                    is_time(key.timestamp)
                    previous = event_id
                lines += len(records)
                size += len(block)
        except (msgspec.DecodeError, RecursionError, ValueError):
            return None
        return lines if size == self._limit else None

    def _in_order_of_writing(self) -> Iterator[Event]:
        offset = number = 0
        previous = ""
        kept = self._records.kept
        for block in whole_blocks(self._path, self._limit):
            is_marked = may_be_marked(block)
            for data in block.split(b"\n")[:-1]:
                number += 1
                try:
                    event = decode_event(data)
                    if data.count(b"{") + data.count(b"[") > MAX_RECORD_DEPTH and is_too_deep(data, event.payload):
                        raise RecursionError
                except (msgspec.DecodeError, RecursionError, ValueError) as error:
                    if _decode_key(data).event_id == previous:
                        self._counter.count_repeated(previous)
                    else:
                        self._counter.count_damage(number, offset, _damage_kind(error, data), len(data))
                else:
                    if event.event_id == previous:
                        self._counter.count_repeated(previous)
                    else:
                        previous = event.event_id
                        yield kept(event, data, is_marked)
                offset += len(data) + 1

    def _in_order_of_ids(self) -> Iterator[Event]:
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
                    self._counter.count_repeated(previous)
                    continue
                event = self._read(descriptor, position, event_id)
                self._ids[position] = ""  # the event itself holds its id from here on
                if event is not None:
                    previous = event_id
                    yield event
        finally:
            os.close(descriptor)

    def _index(self) -> None:
        for line in read_journal(self._path, self._limit):
            place = self._records.place(line)
            if place is not None:
                self._ids.append(place.event_id)
                self._offsets.append(line.offset + place.start)
                self._lengths.append(line.length - place.start)
                self._numbers.append(line.number)

    def _read(self, descriptor: int, position: int, event_id: str) -> Event | None:
        data = os.pread(descriptor, self._lengths[position], self._offsets[position])
        return self._records.read(data, event_id, self._numbers[position], self._offsets[position])


def _with_place(event: Event, event_id: str) -> Event:
    """Return an event with the id it is sorted by and a valid time."""
    if event.event_id == event_id and ms_from_iso(event.timestamp) is not None:
        return event
    place = place_of(event_id)
    timestamp = iso_from_ms(place.milliseconds) if place else event.timestamp
    return msgspec.structs.replace(event, event_id=event_id, timestamp=timestamp)


def _damage_kind(error: Exception, data: bytes) -> str:
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
    """Whether the standard library can read it; unlike strict readers it accepts lone surrogates."""
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True
