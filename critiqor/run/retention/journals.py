"""The journal of a sealed run: a third copy of its events, which is deleted if the other two are proven."""

from __future__ import annotations

from critiqor.model.evidence import Coverage
from critiqor.run.segments.handover import is_in_use
from critiqor.run.store import Run
from critiqor.storage import exclusive
from critiqor.storage.seals.verification import are_events_kept_twice


def drop_journal(run: Run) -> bool:
    """Delete the journal of a sealed run if its evidence and its record hold all of it. Return whether it was deleted.

    It is kept while a monitor or a guard may look at it, if records followed after the seal, and if something in it was
    damaged, lost or changed, because it then shows more than the sealed events.
    """
    journal = run.paths.journal_path(run.id)
    head = run.head()
    if head.seal is None or head.cut is None or head.status != "COMPLETED":
        return False
    if is_in_use(run, head) or run.paths.guard_path(run.id).exists():
        return False
    try:
        size = journal.stat().st_size
    except FileNotFoundError:
        return False
    if size != head.cut.journal_bytes or not _is_contained(run.coverage()):
        return False
    if not are_events_kept_twice(run.paths, run.id):
        return False
    with exclusive(run.paths.lock_path):
        if journal.stat().st_size != size:
            return False
        journal.unlink()
    return True


def _is_contained(coverage: Coverage) -> bool:
    """Return whether the sealed events are all that the journal has to say."""
    witness = coverage.witness
    is_disputed = witness is not None and (witness.is_tampered or witness.lost > 0)
    damaged = coverage.damaged_records or coverage.duplicate_records or coverage.missing_records
    return not is_disputed and not damaged
