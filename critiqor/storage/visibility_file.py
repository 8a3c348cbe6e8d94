"""The file with the visibility of a run, visibility.json: it can be changed after sealing, so no seal covers it."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from critiqor.model.record import RunHead, Visibility, VisibilityChange
from critiqor.storage.atomic import open_regular_file, write_json

MAX_BYTES = 65_536
_Record = TypeVar("_Record", bound=RunHead)


class StoredVisibility(msgspec.Struct, frozen=True, kw_only=True):
    """Who may see a run, and how that changed."""

    visibility: Visibility
    visibility_changes: list[VisibilityChange]


def with_visibility(path: Path, record: _Record) -> _Record:
    """Return a run record with the visibility of the file; unchanged if there is none that can be read.

    A run whose visibility was never changed has no such file, and neither has one of an older version.
    """
    try:
        with open_regular_file(path) as file:
            stored = msgspec.json.decode(file.read(MAX_BYTES), type=StoredVisibility)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return record  # it has a copy
    record.metadata = msgspec.structs.replace(record.metadata, visibility=stored.visibility)
    record.visibility_changes = stored.visibility_changes
    return record


def write_visibility(path: Path, record: RunHead) -> None:
    """Write the visibility of a run record into the file."""
    visibility, changes = record.metadata.visibility, record.visibility_changes
    write_json(path, StoredVisibility(visibility=visibility, visibility_changes=changes))
