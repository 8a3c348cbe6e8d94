"""Seal evidence: write the final session.json of a run, and compute the digests by which it can be verified."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from critiqor.model import Coverage, Event, Metrics
from critiqor.model.evidence import SealedFile
from critiqor.model.record import SessionRecord
from critiqor.model.timestamps import ms_from_iso
from critiqor.storage import SessionPaths
from critiqor.storage.atomic import DigestedFile
from critiqor.storage.audit.closing_records import ClosingRecord, read_closing_records
from critiqor.storage.audit.journal_audit import JournalAudit
from critiqor.storage.audit.statement import read_statement
from critiqor.storage.audit.witness_socket import witness_address
from critiqor.storage.coverage import CoverageCounter
from critiqor.storage.event_merge import merged_events
from critiqor.storage.redaction import Redactor
from critiqor.storage.seals.digests import file_digest
from critiqor.storage.session_document import SessionDocumentWriter

SEALED_MODE = 0o400


class SealedEvidence(NamedTuple):
    """A sealed session.json."""

    digest: str
    size: int
    """Bytes."""
    events_start: int
    """Offset in bytes of the first event in the file."""
    events_end: int
    """Offset in bytes of the end of the last event."""
    metrics: Metrics
    coverage: Coverage


def seal_evidence(
    paths: SessionPaths, record: SessionRecord, redactor: Redactor, observe: Callable[[Event], None]
) -> SealedEvidence:
    """Write the sealed session.json of a run; `observe` is called with every event in order."""
    if record.cut is None:
        raise ValueError("the run record does not yet store how much of the journal to seal")
    run_id = record.run_id
    counter = CoverageCounter(audit_of(paths, record))
    with DigestedFile(paths.evidence_summary_path(run_id), mode=SEALED_MODE) as file:
        document = SessionDocumentWriter(file, run_id)
        journal, lifecycle = paths.journal_path(run_id), record.event_log[: record.cut.lifecycle_events]
        count, add = counter.count, document.add_event
        for event in merged_events(journal, lifecycle, redactor, limit=record.cut.journal_bytes, counter=counter):
            count(event)
            observe(event)
            add(event)
        coverage = counter.build_coverage(redactor, is_running=record.cut.is_running)
        coverage.timeline = _sealed_file(paths.timeline_path(run_id), record.cut.timeline_bytes)
        carried = paths.carried_path(run_id)
        is_continued = record.continues is not None and carried.is_file()
        coverage.carried = _sealed_file(carried, carried.stat().st_size) if is_continued else None
        document.finish(counter.metrics, coverage)
    return SealedEvidence(file.digest, file.size, document.events_start, document.events_end, counter.metrics, coverage)


def audit_of(paths: SessionPaths, record: SessionRecord) -> JournalAudit:
    """Return the comparison of the journal with what recorders and the monitor said about their records."""
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
    """Return the closing records of recorders that had ended when the end of the evidence was fixed."""
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


def _sealed_file(path: Path, size: int | None) -> SealedFile | None:
    """Return the digest of a file beside the evidence; None if there is none that can be read."""
    try:
        digest = file_digest(path, size) if size is not None else None
    except OSError:
        return None
    return SealedFile(size, digest) if size is not None and digest is not None else None
