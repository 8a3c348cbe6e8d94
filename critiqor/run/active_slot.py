"""The active slot of a runs folder, `active_session.json`: which run is being recorded or finalized.

At most one session is active in a folder. Writers hold the lock of the folder.
"""

from __future__ import annotations

from contextlib import suppress

import msgspec

from critiqor.errors import ActiveSessionError, BrokenRecordError, NoActiveSessionError, UnknownRunError, UsageError
from critiqor.model import RunHead, SessionRecord
from critiqor.run.owner import is_owner_alive
from critiqor.storage import SessionPaths, open_regular_file, write_json
from critiqor.storage import run_record as records


def active_record(paths: SessionPaths) -> SessionRecord | None:
    """Return the record of the run in the active slot, or None where the slot names no active run."""
    head = _slot_head(paths)
    try:
        return records.load(paths, head.run_id) if head is not None and head.status in records.ACTIVE else None
    except (UnknownRunError, BrokenRecordError, OSError):
        return None


def active_run_id(paths: SessionPaths, verb: str) -> str:
    """Return the id of the active run, also if its slot was lost. Raise an error with the verb if there is none."""
    head = _slot_head(paths)
    # A completed run still holds the slot if its finalize was killed just before the end.
    if head is not None and head.status in records.ACTIVE | {"COMPLETED"}:
        return head.run_id
    # A session whose slot was lost or damaged must stay reachable.
    for run_id in reversed(paths.run_ids()):
        with suppress(BrokenRecordError, UnknownRunError, OSError):
            if records.load_head(paths, run_id).status in records.ACTIVE:
                return run_id
    latest = paths.run_ids()[-1:]
    fix = f"critiqor show {latest[0]}   shows the latest run" if latest else "critiqor monitor openclaw"
    raise NoActiveSessionError(f"no run is active in this runs folder, so there is nothing to {verb}", fix=fix)


def refuse_second_session(paths: SessionPaths) -> None:
    """Raise `ActiveSessionError` if a run holds the active slot."""
    record = active_record(paths)
    if record is None:
        return
    state = f"{record.run_id} is {record.status}"
    if record.owner is not None and not is_owner_alive(record):
        state += ", but the process that started it is gone"
    raise ActiveSessionError(
        f"another run is active in this runs folder: {state}",
        fix="critiqor finalize   (or: critiqor abort, or another --runs-dir)",
    )


def write_slot(paths: SessionPaths, record: SessionRecord) -> None:
    """Write a run and its status into the active slot."""
    slot = {"run_id": record.run_id, "status": record.status, "owner": record.owner}
    write_json(paths.active_path, {**slot, "started_at": record.timestamps.started_at})


def free_slot(paths: SessionPaths, run_id: str) -> None:
    """Remove the active slot if this run holds it."""
    if _slot_run_id(paths) in (run_id, None):
        paths.active_path.unlink(missing_ok=True)


def _slot_head(paths: SessionPaths) -> RunHead | None:
    """Return the head of the run in the slot, whatever its status; None if the slot is empty."""
    run_id = _slot_run_id(paths)
    try:
        return None if run_id is None else records.load_head(paths, run_id)
    except (UsageError, UnknownRunError, BrokenRecordError, OSError):
        return None


class _Slot(msgspec.Struct):
    run_id: str


def _slot_run_id(paths: SessionPaths) -> str | None:
    try:
        with open_regular_file(paths.active_path) as file:
            return msgspec.json.decode(file.read(), type=_Slot).run_id
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
