"""The slots of a runs folder: which run of each recording is being recorded or finalized.

A recording holds one slot: `active_session.json`, or a named one if several recordings share the folder. At most one
run is active in a slot. Writers hold the lock of the folder. An attached or segmented recorder reads the slot to find
the run that takes its events.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec

from critiqor.errors import ActiveSessionError, BrokenRecordError, NoActiveSessionError, UnknownRunError, UsageError
from critiqor.model import RunHead, SessionRecord
from critiqor.run.owner import is_owner_alive
from critiqor.storage import SessionPaths, open_regular_file, write_json
from critiqor.storage import run_record as records


def active_record(paths: SessionPaths, slot: str | None = None) -> SessionRecord | None:
    """Return the record of the run in a slot, or None where the slot names no active run."""
    head = _slot_head(paths, slot)
    try:
        return records.load(paths, head.run_id) if head is not None and head.status in records.ACTIVE else None
    except (UnknownRunError, BrokenRecordError, OSError):
        return None


def active_run_ids(paths: SessionPaths) -> list[str]:
    """Return the ids of the active runs of all slots, the default one first."""
    heads = (_slot_head(paths, slot) for slot in paths.slot_names())
    return [head.run_id for head in heads if head is not None and head.status in records.ACTIVE]


def active_run_id(paths: SessionPaths, verb: str, slot: str | None = None) -> str:
    """Return the id of the active run, also if its slot was lost. Raise an error with the verb if there is none."""
    head = _slot_head(paths, slot)
    # A completed run still holds the slot if its finalize was killed just before the end.
    if head is not None and head.status in records.ACTIVE | {"COMPLETED"}:
        return head.run_id
    # A session whose slot was lost or damaged must stay reachable.
    for run_id in reversed(paths.run_ids()):
        with suppress(BrokenRecordError, UnknownRunError, OSError):
            found = records.load_head(paths, run_id)
            if found.status in records.ACTIVE and found.slot == slot:
                return run_id
    raise NoActiveSessionError(
        f"no run is active in {_place(slot)}, so there is nothing to {verb}", fix=_alternative(paths, verb, slot)
    )


def _alternative(paths: SessionPaths, verb: str, slot: str | None) -> str:
    """Return the command that is probably meant if a slot is empty."""
    others = [name for name in paths.slot_names() if name != slot and active_record(paths, name) is not None]
    if others:
        return f"critiqor {verb}{slot_option(others[0])}   ({_place(others[0])} has an active run)"
    latest = paths.run_ids()[-1:]
    return f"critiqor show {latest[0]}   shows the latest run" if latest else "critiqor monitor openclaw"


def slot_option(slot: str | None) -> str:
    """Return the option that names a slot, for a command that is suggested; empty for the default one."""
    return "" if slot is None else f" --slot {slot}"


def refuse_second_session(paths: SessionPaths, slot: str | None = None) -> None:
    """Raise `ActiveSessionError` if a run holds the slot."""
    record = active_record(paths, slot)
    if record is None:
        return
    state = f"{record.run_id} is {record.status}"
    if record.owner is not None and not is_owner_alive(record):
        state += ", but the process that started it is gone"
    option = slot_option(slot)
    raise ActiveSessionError(
        f"another run is active in {_place(slot)}: {state}",
        fix=f"critiqor finalize{option}   (or: critiqor abort{option}, another --slot, or another --runs-dir)",
    )


def _place(slot: str | None) -> str:
    return "this runs folder" if slot is None else f"the slot {slot} of this runs folder"


def write_slot(paths: SessionPaths, record: SessionRecord) -> None:
    """Write a run and its status into its slot, unless its record was changed and names none."""
    if (path := _path(paths, record.slot)) is None:
        return
    slot: dict[str, object] = {"run_id": record.run_id, "status": record.status, "owner": record.owner}
    if record.recording is not None:
        slot["recording"] = record.recording
    write_json(path, {**slot, "started_at": record.timestamps.started_at})


def free_slot(paths: SessionPaths, head: RunHead) -> None:
    """Remove the slot of a run if it holds it."""
    path = _path(paths, head.slot)
    if path is not None and slot_run_id(paths, head.slot) in (head.run_id, None):
        path.unlink(missing_ok=True)


def _path(paths: SessionPaths, slot: str | None) -> Path | None:
    """Return the path of a slot that a record names; None if it is no name, which could be a path to anywhere."""
    try:
        return paths.slot_path(slot)
    except UsageError:
        return None


def _slot_head(paths: SessionPaths, slot: str | None) -> RunHead | None:
    """Return the head of the run in the slot, whatever its status; None if the slot is empty."""
    run_id = slot_run_id(paths, slot)
    try:
        return None if run_id is None else records.load_head(paths, run_id)
    except (UsageError, UnknownRunError, BrokenRecordError, OSError):
        return None


class _Slot(msgspec.Struct):
    run_id: str


def slot_run_id(paths: SessionPaths, slot: str | None) -> str | None:
    """Return the run that a slot names, whatever its status; None if the slot is empty or damaged."""
    if (path := _path(paths, slot)) is None:
        return None
    try:
        with open_regular_file(path) as file:
            return msgspec.json.decode(file.read(), type=_Slot).run_id
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
