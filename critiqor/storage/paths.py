"""Where the files of a run are."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from critiqor.errors import UsageError

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
FOLDER_MODE = 0o700
"""What an agent does can be private: only its user may look."""


@dataclass(frozen=True)
class SessionPaths:
    """Every file of one runs folder. Build it with `paths_for`."""

    runs_dir: Path

    def run_path(self, run_id: str) -> Path:
        """The run record."""
        return self.runs_dir / f"{_checked(run_id)}.json"

    def run_folder(self, run_id: str) -> Path:
        """The folder of everything else that belongs to the run."""
        return self.runs_dir / _checked(run_id)

    def evidence_summary_path(self, run_id: str) -> Path:
        """The evidence: a live view while the run goes on, sealed afterwards."""
        return self.run_folder(run_id) / "session.json"

    def diagnosis_path(self, run_id: str) -> Path:
        """What was concluded from the evidence."""
        return self.run_folder(run_id) / "diagnosis.json"

    def journal_path(self, run_id: str) -> Path:
        """What the recorder appends to."""
        return self.run_folder(run_id) / "journal.jsonl"

    def session_lock_path(self, run_id: str) -> Path:
        """Held for the moment in which session.json is replaced, and for good once it is sealed."""
        return self.run_folder(run_id) / "session.json.lock"

    def finalize_lock_path(self, run_id: str) -> Path:
        """Lets one finalize work at a time."""
        return self.run_folder(run_id) / ".finalize.lock"

    def redaction_key_path(self, run_id: str) -> Path:
        """Keys the tags of redacted secrets; gone once the run is completed."""
        return self.run_folder(run_id) / "redaction.key"

    def openclaw_folder(self, run_id: str) -> Path:
        """What belongs to the launched OpenClaw: the overlay configuration and its artifacts."""
        return self.run_folder(run_id) / "openclaw"

    def timeline_path(self, run_id: str) -> Path:
        """What OpenClaw writes of its own timing."""
        return self.openclaw_folder(run_id) / "timeline.jsonl"

    def profiles_folder(self, run_id: str) -> Path:
        """Profiles, trace events, reports and heap snapshots of a deeply profiled run."""
        return self.openclaw_folder(run_id) / "profiles"

    @property
    def active_path(self) -> Path:
        """The active slot."""
        return self.runs_dir / "active_session.json"

    @property
    def lock_path(self) -> Path:
        """Guards the active slot, the run numbers and the run records."""
        return self.runs_dir / ".lock"

    @property
    def last_number_path(self) -> Path:
        """The highest run number ever given, so that none is given twice even when runs are deleted."""
        return self.runs_dir / ".last_run"

    def has_run(self, name: str) -> bool:
        """Whether there is a run of that name."""
        return _RUN_ID.fullmatch(name) is not None and self.run_path(name).exists()

    def run_ids(self) -> list[str]:
        """All runs that have a record, oldest first."""
        if not self.runs_dir.exists():
            return []
        files = (path for path in self.runs_dir.iterdir() if path.suffix == ".json" and path != self.active_path)
        names = (path.stem for path in files)
        return sorted((name for name in names if _RUN_ID.fullmatch(name)), key=_natural)


def paths_for(runs_dir: str | Path) -> SessionPaths:
    """The paths of a runs folder, absolute, whether it exists or not."""
    return SessionPaths(Path(runs_dir).expanduser().absolute())


def _checked(run_id: str) -> str:
    if not _RUN_ID.fullmatch(run_id):
        raise UsageError(f"{run_id!r} is not a run id", fix="critiqor runs   lists the runs of this folder")
    return run_id


def _natural(name: str) -> tuple[int, str]:
    digits = re.search(r"\d+$", name)
    return (int(digits.group()) if digits else 0, name)
