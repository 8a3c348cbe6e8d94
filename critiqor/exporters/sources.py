"""What is known of a run, as exports need it: its events, its diagnosis, its report, and the moments that it cites.

Of an anonymous run this is structure and figures alone, whoever asks, unless he asks for the whole of it: what is
exported goes where nobody asks any more who looks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from critiqor.diagnosis.integrity import as_proven
from critiqor.errors import BrokenRecordError, CritiqorError
from critiqor.model import Coverage, Diagnosis, Event, ms_from_iso
from critiqor.model.integrity import Proof
from critiqor.model.report import RunHead, RunReport
from critiqor.model.timeline import cited_line, line_id
from critiqor.model.trace import us_of
from critiqor.privacy import Aliases, anonymous_coverage, anonymous_diagnosis, anonymous_event, anonymous_run
from critiqor.run.diagnosis import load_diagnosed, load_proof
from critiqor.run.lifecycle import DEFAULT_RUNS_DIR, evidence_events
from critiqor.storage import SessionPaths, paths_for
from critiqor.storage import run_record as records
from critiqor.storage.session_document import read_coverage
from critiqor.timeline.reader.citations import read_cited_lines


def load_report(run_id: str, runs_dir: str | Path = DEFAULT_RUNS_DIR) -> RunReport:
    """A run with its diagnosis, and what its evidence says about its own completeness."""
    paths = paths_for(runs_dir)
    head = head_of(run_id, paths)
    diagnosis = load_diagnosed(run_id, runs_dir)
    coverage, proof = _coverage(paths.evidence_summary_path(run_id)), load_proof(run_id, runs_dir)
    if is_anonymous(head):
        coverage = None if coverage is None else anonymous_coverage(coverage)
        diagnosis = anonymous_diagnosis(diagnosis)
    return RunReport(evidence=proof, run=head, coverage=coverage, diagnosis=as_proven(diagnosis, proof))


def head_of(run_id: str, paths: SessionPaths) -> RunHead:
    """The head of a run record."""
    head = msgspec.convert(records.load_head(paths, run_id), RunHead)
    return anonymous_run(head) if is_anonymous(head) else head


def is_anonymous(head: RunHead) -> bool:
    """Whether only structure and figures of a run leave."""
    return head.metadata.visibility == "anonymous"


def leaving_notes(head: RunHead) -> list[str]:
    """What is to be said of what an export lacks because of the run's visibility."""
    if not is_anonymous(head):
        return []
    return [f"{head.run_id} is anonymous: this holds structure and figures, without names, paths and texts."]


def unproven_notes(run_id: str, proof: Proof) -> list[str]:
    """What is to be said of a run whose evidence is no longer what was sealed."""
    if proof.state in ("intact", "not sealed"):
        return []
    return [f"Not proven: {proof.told} (critiqor verify {run_id})."]


def unfinished_notes(head: RunHead) -> list[str]:
    """What is to be said of a run that is still being recorded."""
    if head.status != "MONITORING":
        return []
    return ["The run is not finalized: this goes as far as it was recorded by now."]


def sealed_bytes(head: RunHead) -> int | None:
    """How far OpenClaw's timeline belongs to the run; None for all of it.

    What OpenClaw wrote after the evidence was sealed belongs to it no more than what it did then.
    """
    return head.cut.timeline_bytes if head.seal is not None and head.cut is not None else None


def events_of(run_id: str, runs_dir: str | Path, *, whole: bool = False) -> Iterator[Event]:
    """The events of a run, in their true order."""
    anonymous = not whole and is_anonymous(head_of(run_id, paths_for(runs_dir)))
    aliases = Aliases()
    try:
        for event in evidence_events(run_id, runs_dir):
            yield anonymous_event(event, aliases) if anonymous else event
    except (msgspec.DecodeError, UnicodeDecodeError, FileNotFoundError) as error:
        message = f"the evidence of {run_id} cannot be read: {error}"
        raise BrokenRecordError(message, fix=f"critiqor verify {run_id}") from error


def diagnosis_of(run_id: str, runs_dir: str | Path, notes: list[str], *, whole: bool = False) -> Diagnosis | None:
    """What was concluded from a run; where nothing was, a note says what to type."""
    try:
        diagnosis = load_diagnosed(run_id, runs_dir)
        anonymous = not whole and is_anonymous(head_of(run_id, paths_for(runs_dir)))
        return anonymous_diagnosis(diagnosis) if anonymous else diagnosis
    except CritiqorError as error:
        notes.append(f"No findings: {error.message} ({error.fix}).")
        return None


def moments_of(cited: Iterable[str], timeline: Path) -> dict[str, int]:
    """When those lines of the timeline were that are cited, by id; microseconds since 1970."""
    numbers = {number for name in cited if (number := cited_line(name)) is not None}
    told = {
        number: ms_from_iso(str(line.get("timestamp"))) for number, line in read_cited_lines(timeline, numbers).items()
    }
    return {line_id(number): us_of(moment) for number, moment in told.items() if moment is not None}


def _coverage(document: Path) -> Coverage | None:
    try:
        return read_coverage(document)
    except (FileNotFoundError, BrokenRecordError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
