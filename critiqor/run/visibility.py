"""Who may see a run beside its user: what the four kinds mean, and changing one for another.

It stands in the head of the run record, outside of what is sealed: a run can be shared and withdrawn at any time, while
it is recorded and years later, and its seal stays intact.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from critiqor.errors import UsageError
from critiqor.model import iso_from_ms, now_ms
from critiqor.model.record import Visibility, VisibilityChange
from critiqor.run.lifecycle import DEFAULT_RUNS_DIR
from critiqor.storage import exclusive, paths_for
from critiqor.storage import run_record as records

MEANING: dict[Visibility, str] = {
    "private": "Only you, with the link that `critiqor dashboard` opens.",
    "shared": "You, and whoever holds a link to this run. A link can be revoked.",
    "anonymous": (
        "You see everything. Everybody else who reaches the dashboard, and every export, gets structure and figures: "
        "the agent, the tenant, paths, messages and payload texts are removed."
    ),
    "public": "Everybody who reaches the dashboard.",
}
"""Who sees a run, from the fewest on."""


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """Who may see a run."""

    run_id: str
    visibility: Visibility
    meaning: str
    before: Visibility | None = None
    """What it was until now; null where nothing was changed."""
    changes: list[VisibilityChange]
    """All that the record remembers, the latest last."""


def visibility_of(run_id: str, runs_dir: str | Path = DEFAULT_RUNS_DIR) -> Standing:
    """Who may see a run."""
    return _standing(run_id, runs_dir, None)


def change_visibility(run_id: str, to: str, runs_dir: str | Path = DEFAULT_RUNS_DIR) -> Standing:
    """Let others see a run, or no longer see it. The record tells of every change."""
    if to not in MEANING:
        raise UsageError(f"{to!r} is no visibility", fix=f"one of {', '.join(MEANING)}")
    paths = paths_for(runs_dir)
    with exclusive(paths.lock_path):
        before = records.change_visibility(paths, run_id, to, iso_from_ms(now_ms()))
    return _standing(run_id, runs_dir, before if before != to else None)


def _standing(run_id: str, runs_dir: str | Path, before: Visibility | None) -> Standing:
    head = records.load_head(paths_for(runs_dir), run_id)
    visibility: Visibility = head["metadata"]["visibility"]
    changes = msgspec.convert(head["visibility_changes"], list[VisibilityChange])
    return Standing(run_id=run_id, visibility=visibility, meaning=MEANING[visibility], before=before, changes=changes)
