"""Compare the records of a journal with what recorders and the monitor said about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from critiqor.model.event import EventType
from critiqor.model.evidence import WitnessFacts
from critiqor.model.record import SessionRecord
from critiqor.model.timestamps import ms_from_iso
from critiqor.storage import SessionPaths
from critiqor.storage.audit.closing_records import ClosingRecord, read_closing_records
from critiqor.storage.audit.statement import DIGEST_BYTES, RecorderStatement, Statement, digest_of, read_statement
from critiqor.storage.audit.witness_socket import witness_address

MAX_EXAMPLES = 20
_ABSENT = bytes(DIGEST_BYTES)
_OF_MONITOR = frozenset(
    (EventType.PROCESS_START, EventType.PROCESS_END, EventType.PROCESS_OUTPUT, "resource_usage", "backend_transcript")
)
"""Lifecycle events that only the monitor writes."""


class JournalAudit:
    """Observes every record of a journal once, and returns what is wrong with them.

    `is_missing` is whether there was a monitor that left no statement.
    """

    def __init__(
        self, statement: Statement | None = None, closings: Iterable[ClosingRecord] = (), *, is_missing: bool = False
    ) -> None:
        self._statement = statement
        self._closings = {closing.writer: closing for closing in closings}
        self._required = statement.required if statement is not None else None
        is_guard = statement is not None and statement.since is not None
        recorders = statement.recorders if statement is not None else ()
        self._known = {one.writer: _Recorder(one, began_before=is_guard) for one in recorders}
        self._unknown: set[str] = set()
        self._facts = WitnessFacts(is_missing=is_missing)

    def observe(self, writer: str, sequence: int, event_id: str, data: bytes) -> None:
        """Compare a record, given as its line of the journal, with the reports about it."""
        if self._statement is None:
            return
        recorder = self._known.get(writer)
        if recorder is None and self._statement.is_open:
            self._facts.unreported += self._statement.covers(_time_of(event_id))
            return
        if recorder is None or not recorder.statement.is_of_tree:
            self._unknown.add(writer)
            self._note(event_id)
            return
        is_covered = self._statement.covers(_time_of(event_id))
        how = recorder.compare(sequence, data.strip(), is_covered=is_covered)
        if how == "changed":
            self._facts.changed += 1
            self._note(event_id)
        elif how == "unreported":
            self._facts.unreported += is_covered
        elif how == "inserted":
            self.observe_repeated(event_id)

    def observe_repeated(self, event_id: str) -> None:
        """Note a record with the number of another one."""
        if self._statement is not None:
            self._facts.inserted += 1
            self._note(event_id)

    def observe_lifecycle(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Compare the lifecycle events of the run record with those that the monitor wrote."""
        statement = self._statement
        if statement is None or not statement.lifecycle:
            return
        left = dict(statement.lifecycle)
        for event in events:
            event_id = str(event.get("event_id"))
            expected = left.pop(event_id, None)
            # While a monitor runs, it may have written an event that it has not noted yet.
            is_own = event.get("event_type") in _OF_MONITOR and self._required is None
            if lifecycle_digest(event) != expected and (expected is not None or is_own):
                self._facts.lifecycle_changed += 1
                self._note(event_id)
        self._facts.lifecycle_changed += len(left)

    def produced(self) -> dict[str, int]:
        """Return how many records each recorder produced, as far as it or the monitor said so."""
        closings = self._closings.values()
        counts = {closing.writer: closing.produced for closing in closings if closing.produced is not None}
        for writer, recorder in self._known.items():
            limit = self._limit(writer, recorder)
            if not recorder.statement.is_of_tree:
                continue
            counts[writer] = max(counts.get(writer, 0), limit) if self._required is None else limit
        return counts

    def not_closed(self) -> int:
        """Return how many recorders did not end properly, where it is not known what they produced."""
        return sum(closing.produced is None and writer not in self._known for writer, closing in self._closings.items())

    def conclude(self, damaged: int) -> WitnessFacts | None:
        """Return what is wrong with the records; None without a monitor. At most `damaged` ones could not be read."""
        facts = self._facts
        if self._statement is None:
            return facts if facts.is_missing else None
        facts.recorders = len(self._known)
        facts.altered = list(self._statement.altered)
        for writer, recorder in self._known.items():
            facts.irregular_reports += recorder.statement.irregular
            if not recorder.statement.is_of_tree:
                if recorder.statement.irregular:
                    self._unknown.add(writer)
                continue
            limit = self._limit(writer, recorder)
            removed, lost = recorder.absent(limit)
            facts.produced += limit
            facts.removed += removed
            facts.lost += lost
            facts.unreported += recorder.not_confirmed()
            facts.silenced_recorders += recorder.statement.found_seal
        # What cannot be read may be any of those that are missing, as many as fit into it.
        explained = min(facts.removed, damaged)
        facts.removed -= explained
        facts.unknown_recorders = len(self._unknown)
        return facts

    def _limit(self, writer: str, recorder: _Recorder) -> int:
        return recorder.statement.produced if self._required is None else self._required.get(writer, 0)

    def _note(self, event_id: str) -> None:
        if len(self._facts.examples) < MAX_EXAMPLES:
            self._facts.examples.append(event_id)


class _Recorder:
    """The records of one recorder."""

    def __init__(self, statement: RecorderStatement, *, began_before: bool) -> None:
        """`began_before`: it wrote records before it could report any."""
        self.statement = statement
        self._seen = bytearray(statement.produced)
        self._unreported = 0
        self._without_digest = 0
        """Records in the journal whose digest is not known, although they had to be reported."""
        self._not_covered = 0
        """Those that did not have to be."""
        self._first_reported = self._leading_gap() if began_before else 0

    def compare(self, sequence: int, data: bytes, *, is_covered: bool) -> str:
        """Return how a record compares with its report; `is_covered`: whether there had to be one."""
        place = sequence - 1
        if place == self.statement.produced + self._unreported and not self.statement.has_ended:
            # The report of a recorder that was killed, or that goes on without the monitor, did not arrive.
            self._unreported += 1
            return "unreported"
        if not 0 <= place < self.statement.produced or self._seen[place]:
            return "inserted"
        self._seen[place] = 1
        digests = self.statement.digests
        if digests is None:
            return "same"
        expected = self._expected(digests, place)
        if expected == _ABSENT:
            is_covered = is_covered and place >= self._first_reported
            self._without_digest += is_covered
            self._not_covered += not is_covered
        # A write that failed can have reached the disk all the same.
        return "same" if expected in (_ABSENT, digest_of(data)) else "changed"

    def _leading_gap(self) -> int:
        """Return how many records there were before the first one with a report."""
        digests, produced = self.statement.digests or b"", self.statement.produced
        return next((place for place in range(produced) if self._expected(digests, place) != _ABSENT), produced)

    def not_confirmed(self) -> int:
        """Return how many records of the journal may be anything, because their reports did not reach the monitor."""
        if not self._without_digest:
            return 0
        digests = self.statement.digests or b""
        unknown = sum(self._expected(digests, place) == _ABSENT for place in range(self.statement.produced))
        return min(self._without_digest, max(0, unknown - self._not_covered - self.statement.lost))

    @staticmethod
    def _expected(digests: bytes, place: int) -> bytes:
        return digests[place * DIGEST_BYTES : (place + 1) * DIGEST_BYTES]

    def absent(self, limit: int) -> tuple[int, int]:
        """Return how many of the first records were removed, and how many never reached the disk."""
        statement, digests = self.statement, self.statement.digests
        if digests is None:
            missing = limit - sum(self._seen[:limit])
            lost = min(missing, statement.lost)
        else:
            gone = [place for place in range(limit) if not self._seen[place]]
            missing, lost = len(gone), sum(self._expected(digests, place) == _ABSENT for place in gone)
        # The last record of a process that was killed was reported and not yet written.
        if missing > lost and not statement.has_ended and not self._seen[statement.produced - 1]:
            lost += 1
        return missing - lost, lost


def _time_of(event_id: str) -> int:
    """Return the time in an event id, in milliseconds since 1970."""
    return int(event_id.split("_")[1], 36)


def lifecycle_digest(event: Mapping[str, Any]) -> str:
    """Return the digest by which the audit compares a lifecycle event, whatever the order of its members."""
    return digest_of(msgspec.json.encode(event, order="deterministic")).hex()


def audit_of(paths: SessionPaths, record: SessionRecord) -> JournalAudit:
    """Audit the journal of a run: compare it with what recorders and the monitor said about their records."""
    path = paths.statement_path(record.run_id)
    statement = read_statement(path)
    lifecycle = record.event_log[: record.cut.lifecycle_events] if record.cut is not None else []
    events = [event for event in lifecycle if isinstance(event, dict)]
    had_monitor = path.exists() or any(witness_address(event) is not None for event in events)
    audit = JournalAudit(statement, _closings(paths, record), is_missing=statement is None and had_monitor)
    if not any(_is_recovery(event) for event in record.event_log):
        audit.observe_lifecycle(events)
    return audit


def _closings(paths: SessionPaths, record: SessionRecord) -> list[ClosingRecord]:
    """Return the closing records of recorders that ended before the cut-off of the evidence."""
    began = [ms_from_iso(step.timestamp) for step in record.lifecycle if step.state in ("FINALIZING", "ABORTED")]
    fixed_at = record.cut.fixed_at if record.cut is not None else None
    limit = ms_from_iso(fixed_at) if fixed_at is not None else began[0] if began else None
    found = read_closing_records(paths.run_folder(record.run_id), limit)
    # A recorder that may still be alive has not left its counts yet.
    is_over = record.owner is not None and record.cut is not None and record.cut.is_running is False
    return [closing for closing in found if closing.produced is not None or is_over]


def _is_recovery(event: Any) -> bool:
    """Return whether an event says that the record was rebuilt, without the events that the monitor wrote."""
    payload = event.get("payload") if isinstance(event, dict) else None
    return isinstance(payload, dict) and payload.get("recovered") is True
