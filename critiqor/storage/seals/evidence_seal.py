"""Seal evidence: write the final session.json of a run, and compute the digests by which it can be verified."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from critiqor.model import Coverage, Event, Metrics
from critiqor.model.evidence import SealedFile
from critiqor.model.record import SessionRecord
from critiqor.storage import SessionPaths
from critiqor.storage.atomic import DigestedFile
from critiqor.storage.audit.journal_audit import audit_of
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


def _sealed_file(path: Path, size: int | None) -> SealedFile | None:
    """Return the digest of a file beside the evidence; None if there is none that can be read."""
    try:
        digest = file_digest(path, size) if size is not None else None
    except OSError:
        return None
    return SealedFile(size, digest) if size is not None and digest is not None else None
