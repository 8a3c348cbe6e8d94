"""Notes on what an export lacks and why, and the part of the timeline that belongs to a run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from critiqor.errors import CritiqorError
from critiqor.model import Diagnosis, RunHead, ms_from_iso
from critiqor.model.timeline import line_id, line_of_id
from critiqor.model.timestamps import us_of
from critiqor.run.view import RunView
from critiqor.timeline.reader.citations import read_cited_lines


def visibility_notes(view: RunView) -> list[str]:
    """Return a note if names and texts are left out because the run is anonymous."""
    if not view.is_anonymous:
        return []
    return [f"{view.run_id} is anonymous: the export contains structure and numbers only, no names, paths or texts."]


def integrity_notes(view: RunView) -> list[str]:
    """Return a note if the evidence of the run no longer matches its seal."""
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


def sealed_timeline_bytes(head: RunHead) -> int | None:
    """Return how many bytes of OpenClaw's timeline belong to the run; None for all of them.

    Lines that OpenClaw wrote after the seal do not belong to it.
    """
    return head.cut.timeline_bytes if head.seal is not None and head.cut is not None else None


def timeline_moments(cited: Iterable[str], timeline: Path) -> dict[str, int]:
    """Return the times of the cited timeline lines by id; microseconds since 1970."""
    numbers = {number for name in cited if (number := line_of_id(name)) is not None}
    lines = read_cited_lines(timeline, numbers)
    times = {number: ms_from_iso(str(line.get("timestamp"))) for number, line in lines.items()}
    return {line_id(number): us_of(moment) for number, moment in times.items() if moment is not None}
