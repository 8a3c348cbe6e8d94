"""Runs on disk: `RunStore` finds the runs of a folder, and `Run` reads one of them.

Commands that list runs import it every time, so its methods import what only they need.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from critiqor.errors import BrokenRecordError, NoActiveSessionError
from critiqor.model import Coverage, Diagnosis, Event, RunHead, SessionRecord
from critiqor.run.active_slot import active_record, active_run_ids
from critiqor.storage import SessionPaths, paths_for, write_bytes
from critiqor.storage import run_record as records
from critiqor.storage.atomic import read_regular_file
from critiqor.storage.journal import restore_journal
from critiqor.storage.session_document import read_coverage, read_sealed_events

if TYPE_CHECKING:
    from critiqor.model.timeline import TimelineSummary
    from critiqor.storage.redaction import Redactor
    from critiqor.storage.seals.verification import Verification

DEFAULT_RUNS_DIR = "runs"


class RunStore:
    """The runs of one folder."""

    def __init__(self, runs_dir: str | Path = DEFAULT_RUNS_DIR) -> None:
        self.paths: SessionPaths = paths_for(runs_dir)

    @property
    def runs_dir(self) -> Path:
        """The folder, absolute, whether it exists or not."""
        return self.paths.runs_dir

    def __contains__(self, name: str) -> bool:
        """Return whether there is a run of that name."""
        return self.paths.has_run(name)

    def run(self, run_id: str) -> Run:
        """Return a handle to a run; its methods raise `UnknownRunError` if the run does not exist."""
        return Run(run_id, self.paths)

    def runs(self) -> list[Run]:
        """Return every run that has a record, oldest first."""
        return [Run(run_id, self.paths) for run_id in self.paths.run_ids()]

    def active(self, slot: str | None = None) -> Run | None:
        """Return the run that holds a slot, or None: only MONITORING and FINALIZING are active."""
        record = active_record(self.paths, slot)
        return None if record is None else Run(record.run_id, self.paths)

    def all_active(self) -> list[Run]:
        """Return the active runs of all slots, that of the default one first."""
        return [Run(run_id, self.paths) for run_id in active_run_ids(self.paths)]


@dataclass(frozen=True)
class Run:
    """A handle to one run. Nothing is read until a method is called, and nothing is kept."""

    id: str
    paths: SessionPaths
    """The paths of its runs folder."""

    @classmethod
    def load(cls, run_id: str, runs_dir: str | Path = DEFAULT_RUNS_DIR) -> Self:
        """Return a run of a store by its id. Raise `UnknownRunError` if there is no run with this id."""
        run = cls(run_id, paths_for(runs_dir))
        run.head()
        return run

    @property
    def store(self) -> RunStore:
        """The store of the runs folder that contains this run."""
        return RunStore(self.paths.runs_dir)

    @property
    def record_path(self) -> Path:
        """The run record."""
        return self.paths.run_path(self.id)

    @property
    def folder(self) -> Path:
        """The folder of all other files of the run."""
        return self.paths.run_folder(self.id)

    @property
    def evidence_path(self) -> Path:
        """session.json: a live view during the recording, sealed afterwards."""
        return self.paths.evidence_summary_path(self.id)

    @property
    def diagnosis_path(self) -> Path:
        """diagnosis.json."""
        return self.paths.diagnosis_path(self.id)

    @property
    def timeline_path(self) -> Path:
        """OpenClaw's diagnostics timeline."""
        return self.paths.timeline_path(self.id)

    @property
    def profiles_folder(self) -> Path:
        """Profiles, trace events, reports and heap snapshots of a deeply profiled run."""
        return self.paths.profiles_folder(self.id)

    def head(self) -> RunHead:
        """Read the record without its diagnosis and event log."""
        return records.load_head(self.paths, self.id)

    def record(self) -> SessionRecord:
        """Read the whole record."""
        return records.load(self.paths, self.id)

    def events(self) -> Iterator[Event]:
        """Read the events in true order: the sealed ones, or as they would be sealed now."""
        if not self.record_path.exists() and self.evidence_path.exists():
            return _adopted_events(self.evidence_path, [])
        if self.head().seal is not None:
            return read_sealed_events(self.evidence_path)
        return self._unsealed_events(self.record().event_log)

    def events_without_record(self) -> Iterator[Event]:
        """Read the events of the journal, or of session.json if there is none, where the record is lost."""
        return self._unsealed_events([])

    def _unsealed_events(self, lifecycle: list[Any]) -> Iterator[Event]:
        from critiqor.storage.event_merge import merged_events

        journal = self.paths.journal_path(self.id)
        if journal.exists():
            return merged_events(journal, lifecycle, self.redactor())
        return _adopted_events(self.evidence_path, lifecycle)

    def coverage(self) -> Coverage:
        """Read the coverage of the sealed evidence."""
        return read_coverage(self.evidence_path)

    @property
    def diagnosis(self) -> Diagnosis:
        """The latest diagnosis of the sealed evidence, read from disk each time.

        If there is none, or one of other evidence, it raises an error that names the command that makes one.
        """
        head = self.head()
        if head.seal is None:
            verb = "diagnose" if head.status == "ABORTED" else "finalize"
            message = f"{self.id} is {head.status} and not diagnosed yet"
            raise NoActiveSessionError(message, fix=f"critiqor {verb} {self.id}")
        diagnosis = records.load_diagnosis(self.paths, self.id)
        if diagnosis.evidence_digest != head.seal.digest:
            message = f"the diagnosis of {self.id} does not match its sealed evidence"
            raise BrokenRecordError(message, fix=f"critiqor diagnose {self.id}")
        from critiqor.storage.seals.diagnosis_seal import diagnosis_problem, read_diagnosis_seal

        sealed = read_diagnosis_seal(self.diagnosis_path)
        if (problem := diagnosis_problem(sealed, is_required=head.seal.record is not None)) is not None:
            raise BrokenRecordError(f"{self.id}: {problem}", fix=f"critiqor diagnose {self.id}")
        return diagnosis

    def verify(self, *, rediagnose: bool = False) -> Verification:
        """Compare the files of the run with their seals, locate every difference, and check the signatures.

        With `rediagnose`, the sealed evidence is diagnosed once more and compared with diagnosis.json, which takes as
        long as `critiqor diagnose`.
        """
        from critiqor.model.verdict import Check
        from critiqor.storage.seals.verification import verify_run, with_checks

        found = verify_run(self.paths, self.id)
        failed = {check.name for check in found.checks if check.state == "failed"}
        changed = failed & {"evidence", "timeline", "carried"}
        if changed or not rediagnose:
            text = "the evidence was changed" if changed else "the evidence was not diagnosed once more"
            fix = None if changed else f"critiqor check {self.id} --rediagnose"
            return with_checks(found, [Check(name="rediagnosis", state="not checked", explanation=text, fix=fix)])
        from critiqor.run.diagnosis import check_diagnosis

        return with_checks(found, [check_diagnosis(self)])

    def timing(self) -> TimelineSummary:
        """Read OpenClaw's timeline of this run, and split its turns by the recorded events."""
        from critiqor.timeline import Timing

        timing = Timing(self.timeline_path, self.head().sealed_timeline_bytes)
        for event in self.events():
            timing.observe(event)
        return timing.summary()

    def redactor(self) -> Redactor:
        """Return the redactor for the records of this run, with its own key and the rules that the user has added."""
        from critiqor.storage.redaction import Redactor, new_redaction_key

        path = self.paths.redaction_key_path(self.id)
        if not path.exists():
            write_bytes(path, new_redaction_key())
        return Redactor.of_run(read_regular_file(path), self.paths.redaction_rules_path(self.id))


def _adopted_events(document: Path, lifecycle: list[Any]) -> Iterator[Event]:
    """Read events that are only in session.json. Its recorder may still write it, so the file is not changed."""
    import tempfile

    from critiqor.storage.event_merge import merged_events
    from critiqor.storage.redaction import Redactor, new_redaction_key

    with tempfile.TemporaryDirectory() as folder:
        journal = Path(folder) / "journal.jsonl"
        restore_journal(document, journal)
        yield from merged_events(journal, lifecycle, Redactor(new_redaction_key()))
