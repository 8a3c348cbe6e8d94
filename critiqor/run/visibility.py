"""Reading and changing the visibility of a run.

The visibility is in a file of its own, which no seal covers, and the run record has a copy that its digest leaves
out. It can be changed at any time, during the recording and years later, and the seals stay intact.
"""

from __future__ import annotations

import msgspec

from critiqor.errors import UsageError
from critiqor.model import iso_from_ms, now_ms
from critiqor.model.record import Visibility, VisibilityChange
from critiqor.privacy.visibility import MEANINGS
from critiqor.run.store import Run
from critiqor.storage import exclusive
from critiqor.storage import run_record as records


class RunVisibility(msgspec.Struct, frozen=True, kw_only=True):
    """Who may see a run."""

    run_id: str
    visibility: Visibility
    meaning: str
    before: Visibility | None = None
    """The previous visibility; null if nothing was changed."""
    changes: list[VisibilityChange]
    """All changes in the record, the latest last."""


def read_visibility(run: Run) -> RunVisibility:
    """Return who may see a run."""
    return _read(run, None)


def change_visibility(run: Run, to: str) -> RunVisibility:
    """Change who may see a run. The record keeps every change."""
    if to not in MEANINGS:
        raise UsageError(f"{to!r} is not a visibility", fix=f"use one of {', '.join(MEANINGS)}")
    with exclusive(run.paths.lock_path):
        before = records.rewrite_visibility(run.paths, run.id, to, iso_from_ms(now_ms()))
    return _read(run, before if before != to else None)


def _read(run: Run, before: Visibility | None) -> RunVisibility:
    head = run.head()
    return RunVisibility(
        run_id=run.id,
        visibility=head.metadata.visibility,
        meaning=MEANINGS[head.metadata.visibility],
        before=before,
        changes=head.visibility_changes,
    )
