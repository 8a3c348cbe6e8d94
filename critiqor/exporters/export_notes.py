"""Notes on what an export lacks and why."""

from __future__ import annotations

from critiqor.errors import CritiqorError
from critiqor.model import Diagnosis
from critiqor.run.view import RunView


def visibility_notes(view: RunView) -> list[str]:
    """Return a note on an export if names and texts are left out because the run is anonymous."""
    if not view.is_anonymous:
        return []
    return [f"{view.run_id} is anonymous: the export contains structure and numbers only, no names, paths or texts."]


def integrity_notes(view: RunView) -> list[str]:
    """Return a note on an export if the evidence of the run no longer matches its seal."""
    if view.integrity.state in ("intact", "not sealed"):
        return []
    return [f"Not verified: {view.integrity.explanation} (critiqor verify {view.run_id})."]


def unfinished_notes(view: RunView) -> list[str]:
    """Return a note if the run is still being recorded."""
    if view.head.status != "MONITORING":
        return []
    return ["The run is not finalized: this contains what was recorded so far."]


def diagnosis_or_note(view: RunView, notes: list[str]) -> Diagnosis | None:
    """Return the diagnosis of the run; if there is none, add a note with the next command."""
    try:
        return view.require_diagnosis()
    except CritiqorError as error:
        notes.append(f"No findings: {error.message} ({error.fix}).")
        return None
