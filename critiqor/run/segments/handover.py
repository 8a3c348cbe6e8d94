"""Passing a recording on to its next run, and what is left to do for the run before.

The next run is created before the cut. The slot then names it, in one step, and every recorder follows: new agent runs
belong to the next run, those that have begun end in the run before. A recorder that has nothing more to write there
completes its closing record; when all have, the run before is sealed. A process that is killed at any point leaves a
state that `finalize` of the latest run, or the next attempt to cut, completes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from critiqor.errors import CritiqorError
from critiqor.model import EventType, RunHead, SessionRecord, iso_from_ms, now_ms
from critiqor.run.active_slot import slot_run_id, write_slot
from critiqor.run.owner import has_other_owner
from critiqor.run.store import Run
from critiqor.storage import SessionPaths, exclusive, write_bytes
from critiqor.storage import run_record as records
from critiqor.storage.audit.closing_records import ClosingRecord, closing_files
from critiqor.storage.paths import run_order
from critiqor.storage.session_document import empty_document

Prepare = Callable[[Run], Mapping[str, Any]]
"""Prepares the recording of a new run before any event belongs to it. Returns what its first event says about that."""


class Handover(NamedTuple):
    """A recording that goes on in another run."""

    run: Run
    """The new run."""
    started: dict[str, Any]
    """Its first lifecycle event."""


def hand_over(run: Run, prepare: Prepare) -> Handover | None:
    """Let a recording go on in a new run, and set this one to FINALIZING. Return None if it is not recorded any more.

    The evidence of this run has no end yet: agent runs that have begun are still recorded in it.
    """
    paths = run.paths
    with exclusive(paths.lock_path):
        record = _recorded(run)
        if record is None:
            return None
        following = _reserve(run, record)
    facts = prepare(Run(following.run_id, paths))
    with exclusive(paths.lock_path):
        record = _recorded(run)
        if record is None:
            _discard(paths, following.run_id)
            return None
        moment = now_ms()
        if following.status != "MONITORING":
            following.timestamps = msgspec.structs.replace(following.timestamps, started_at=iso_from_ms(moment))
            records.change_state(following, "MONITORING", moment)
        event = {"event_type": EventType.SEGMENT_STARTED, "payload": {"continues": run.id, **facts}}
        started = records.append_event(following, event, moment)
        records.save(paths, following)
        write_slot(paths, following)
        leave_segment(record)
        records.save(paths, record)
    return Handover(Run(following.run_id, paths), started)


def passed_on(run: Run) -> Handover | None:
    """Return how a recording goes on if an attempt to hand it over failed after its slot named the next run."""
    following = successor_of(run)
    if following is None or slot_run_id(run.paths, run.head().slot) != following.id:
        return None
    events = (event for event in reversed(following.record().event_log) if isinstance(event, dict))
    started = next((event for event in events if event.get("event_type") == EventType.SEGMENT_STARTED), None)
    return None if started is None else Handover(following, started)


def _recorded(run: Run) -> SessionRecord | None:
    """Return the record of a run that takes the events of its recording; None for any other."""
    record = run.record()
    is_held = record.status == "MONITORING" and slot_run_id(run.paths, record.slot) == run.id
    return record if is_held else None


def _reserve(run: Run, record: SessionRecord) -> SessionRecord:
    """Return the record of the next run: a new one, or that of an attempt that was killed."""
    paths = run.paths
    if (known := successor_of(run)) is not None:
        return known.record()
    following = records.new_record(paths, record.metadata, record.owner, now_ms())
    following.slot, following.segment = record.slot, record.segment
    following.continues, following.recording = run.id, record.recording or run.id
    write_bytes(paths.evidence_summary_path(following.run_id), empty_document(following.run_id))
    records.save(paths, following)
    return following


def leave_segment(record: SessionRecord) -> None:
    """Set the record of a segment that the recording has left to FINALIZING. The end of its evidence is fixed later."""
    moment = now_ms()
    records.append_event(record, {"event_type": EventType.SEGMENT_ENDED}, moment)
    records.change_state(record, "FINALIZING", moment)


def _discard(paths: SessionPaths, run_id: str) -> None:
    """Remove a run that was reserved and in which nothing was recorded. The caller holds the lock of the folder."""
    import shutil

    paths.run_path(run_id).unlink(missing_ok=True)
    shutil.rmtree(paths.run_folder(run_id), ignore_errors=True)


def successor_of(run: Run) -> Run | None:
    """Return the run that continues a run; None if there is none."""
    ids = run.paths.run_ids()
    if run.id not in ids or (head := _head(run)) is None:
        return None
    for run_id in ids[ids.index(run.id) + 1 :]:
        following = _head(Run(run_id, run.paths))
        if following is not None and _is_continued_by(head, following):
            return Run(run_id, run.paths)
    return None


def _is_continued_by(earlier: RunHead, later: RunHead) -> bool:
    """Return whether a run is the segment after another one; a forged record could name any run, even itself."""
    is_same_recording = (earlier.recording or earlier.run_id) == later.recording and earlier.slot == later.slot
    is_in_order = run_order(earlier.run_id) < run_order(later.run_id)
    return later.continues == earlier.run_id and is_same_recording and is_in_order


def discard_reserved(run: Run) -> None:
    """Remove the next run that a killed process has reserved for a recording that ends with this run."""
    if run.head().segment is None or (following := successor_of(run)) is None:
        return
    with exclusive(run.paths.lock_path):
        head = _head(following)
        is_unused = head is not None and slot_run_id(run.paths, head.slot) in (None, run.id)
        if head is not None and is_unused and head.status in ("IDLE", "MONITORING") and not _has_records(following):
            _discard(run.paths, following.id)


def _has_records(run: Run) -> bool:
    journal = run.paths.journal_path(run.id)
    return journal.exists() and journal.stat().st_size > 0


def is_in_use(run: Run, head: RunHead) -> bool:
    """Return whether a running monitor will look at a run again: at a segment only until it was handed over."""
    return has_other_owner(head) and (head.segment is None or successor_of(run) is None)


def unfinished_before(run: Run) -> list[Run]:
    """Return the earlier segments of a recording that are not sealed yet, the oldest first."""
    found: list[Run] = []
    head = _head(run)
    while head is not None and head.continues is not None:
        earlier = Run(head.continues, run.paths)
        following, head = head, _head(earlier)
        if head is None or head.status not in records.ACTIVE or not _is_continued_by(head, following):
            break
        found.insert(0, earlier)
    return found


def have_recorders_left(run: Run) -> bool:
    """Return whether no recorder writes into a run any more: each has completed its closing record, or is gone."""
    return not any(closing.produced is None and _is_alive(closing, at) for closing, at in closing_files(run.folder))


def _is_alive(closing: ClosingRecord, written_ns: int) -> bool:
    import psutil

    try:
        # A process that began after its closing record was reserved has only the same number.
        return psutil.Process(closing.pid).create_time() <= written_ns / 1e9 + 1
    except (psutil.NoSuchProcess, ValueError, OSError, OverflowError):
        return False  # it is gone, or there cannot be such a process
    except psutil.Error:
        return True


def _head(run: Run) -> RunHead | None:
    try:
        return run.head()
    except (CritiqorError, OSError):
        return None
