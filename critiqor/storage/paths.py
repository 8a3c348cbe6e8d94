"""Paths of the files of a run."""

from __future__ import annotations

import os
import re
from pathlib import Path

import msgspec

from critiqor.errors import UsageError

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_SLOT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
DEFAULT_SLOT = "default"
"""Name of the slot of a recording that names none."""
FOLDER_MODE = 0o700
"""Only the user may read runs: what an agent does can be private."""


class SessionPaths(msgspec.Struct, frozen=True):
    """Paths of all files in one runs folder. Create it with `paths_for`."""

    runs_dir: Path

    def run_path(self, run_id: str) -> Path:
        """The run record."""
        return self.runs_dir / f"{_checked(run_id)}.json"

    def run_folder(self, run_id: str) -> Path:
        """The folder of all other files of the run."""
        return self.runs_dir / _checked(run_id)

    def evidence_summary_path(self, run_id: str) -> Path:
        """The evidence, session.json: a live view during the run, sealed afterwards."""
        return self.runs_dir.joinpath(_checked(run_id), "session.json")

    def diagnosis_path(self, run_id: str) -> Path:
        """The diagnosis of the evidence."""
        return self.runs_dir.joinpath(_checked(run_id), "diagnosis.json")

    def live_path(self, run_id: str) -> Path:
        """The current verdict while the run is recorded."""
        return self.runs_dir.joinpath(_checked(run_id), "live.json")

    def stop_path(self, run_id: str) -> Path:
        """A request of the user to stop the agent, until it is taken."""
        return self.runs_dir.joinpath(_checked(run_id), "stop.json")

    def visibility_path(self, run_id: str) -> Path:
        """Who may see the run, and every change of it; it exists once the visibility was changed."""
        return self.runs_dir.joinpath(_checked(run_id), "visibility.json")

    def annotations_path(self, run_id: str) -> Path:
        """What the user says about the run: tags, a note and feedback on findings."""
        return self.runs_dir.joinpath(_checked(run_id), "annotations.json")

    def journal_path(self, run_id: str) -> Path:
        """The journal to which recorders append events."""
        return self.runs_dir.joinpath(_checked(run_id), "journal.jsonl")

    def session_lock_path(self, run_id: str) -> Path:
        """Lock of session.json: held while it is replaced, and permanently once it is sealed."""
        return self.runs_dir.joinpath(_checked(run_id), "session.json.lock")

    def finalize_lock_path(self, run_id: str) -> Path:
        """Lock that lets one finalize run at a time."""
        return self.runs_dir.joinpath(_checked(run_id), ".finalize.lock")

    def redaction_key_path(self, run_id: str) -> Path:
        """Key of the tags of redacted secrets; deleted when the run is completed."""
        return self.runs_dir.joinpath(_checked(run_id), "redaction.key")

    def statement_path(self, run_id: str) -> Path:
        """The statement of the monitor about the records of the run."""
        return self.runs_dir.joinpath(_checked(run_id), "witness.json")

    def guard_path(self, run_id: str) -> Path:
        """Where the guard of an attached run says to which socket recorders report; it exists while there is one."""
        return self.runs_dir.joinpath(_checked(run_id), "guard.json")

    def carried_path(self, run_id: str) -> Path:
        """Events of earlier segments of the recording that the diagnosis of this one needs."""
        return self.runs_dir.joinpath(_checked(run_id), "carried.jsonl")

    def closing_path(self, run_id: str, writer: str) -> Path:
        """The closing record of one recorder."""
        return self.runs_dir.joinpath(_checked(run_id), f"recorder-{writer}.json")

    def redaction_rules_path(self, run_id: str) -> Path:
        """Redaction rules that the user has added for the run; the recorder plugin reads them, too."""
        return self.runs_dir.joinpath(_checked(run_id), "redaction.json")

    def openclaw_folder(self, run_id: str) -> Path:
        """Files of the launched OpenClaw: the configuration overlay, its timeline and its profiles."""
        return self.run_folder(run_id) / "openclaw"

    def timeline_path(self, run_id: str) -> Path:
        """OpenClaw's diagnostics timeline."""
        return self.runs_dir.joinpath(_checked(run_id), "openclaw", "timeline.jsonl")

    def profiles_folder(self, run_id: str) -> Path:
        """Profiles, trace events, reports and heap snapshots of a deeply profiled run."""
        return self.openclaw_folder(run_id) / "profiles"

    @property
    def active_path(self) -> Path:
        """The default slot: which run is active, if its recording names no other slot."""
        return self.runs_dir / "active_session.json"

    def slot_path(self, slot: str | None) -> Path:
        """A slot: which run of a recording is active. None is the default one."""
        name = checked_slot(slot)
        return self.active_path if name is None else self._slots_folder / f"{name}.json"

    @property
    def _slots_folder(self) -> Path:
        return self.runs_dir / ".slots"

    def slot_names(self) -> list[str | None]:
        """Return the slots that a run may hold: the default one, and those that have a file."""
        try:
            names = (path.stem for path in self._slots_folder.iterdir() if path.suffix == ".json")
            return [None, *sorted(name for name in names if _SLOT_NAME.fullmatch(name))]
        except OSError:
            return [None]

    @property
    def lock_path(self) -> Path:
        """Lock of the active slot, the run numbers and the run records."""
        return self.runs_dir / ".lock"

    @property
    def guard_lock_path(self) -> Path:
        """Lock of the guard that follows the recordings of this folder."""
        return self.runs_dir / ".guard.lock"

    @property
    def notify_folder(self) -> Path:
        """The outbox of alerts."""
        return self.runs_dir / ".notify"

    @property
    def fleet_folder(self) -> Path:
        """The outbox of runs that are to be stored in an object store."""
        return self.runs_dir / ".fleet"

    @property
    def streams_folder(self) -> Path:
        """Which spans of runs were sent to a collector while they were recorded."""
        return self.runs_dir / ".otlp"

    @property
    def received_path(self) -> Path:
        """Spans that `critiqor receive` has accepted, and that are not imported yet."""
        return self.runs_dir / ".received.sqlite"

    @property
    def receiver_lock_path(self) -> Path:
        """Lock of the receiver of this folder."""
        return self.runs_dir / ".receiver.lock"

    @property
    def received_lock_path(self) -> Path:
        """Lock of the process that imports received spans: that of a killed receiver may still be at work."""
        return self.runs_dir / ".received.lock"

    @property
    def prune_lock_path(self) -> Path:
        """Lock that lets one process at a time remove runs."""
        return self.runs_dir / ".prune.lock"

    @property
    def search_index_path(self) -> Path:
        """The index of the words of all runs, which can be built again at any time."""
        return self.runs_dir / ".search.sqlite"

    @property
    def run_list_path(self) -> Path:
        """The lines of finished runs when they were listed last, which can be deleted at any time."""
        return self.runs_dir / ".run_list.json"

    @property
    def last_number_path(self) -> Path:
        """The highest run number ever assigned, so that none is reused even when runs are deleted."""
        return self.runs_dir / ".last_run"

    def has_run(self, name: str) -> bool:
        """Whether there is a run with this name."""
        return _RUN_ID.fullmatch(name) is not None and self.run_path(name).exists()

    def run_ids(self) -> list[str]:
        """Return the ids of all runs that have a record, oldest first."""
        if not self.runs_dir.exists():
            return []
        active = self.active_path.name
        with os.scandir(self.runs_dir) as entries:
            files = [each.name for each in entries if each.name.endswith(".json") and each.name != active]
        names = (name.removesuffix(".json") for name in files)
        return sorted((name for name in names if _RUN_ID.fullmatch(name)), key=run_order)

    def lost_run_ids(self) -> list[str]:
        """Return the ids of all runs that have a journal or evidence but no record, oldest first."""
        if not self.runs_dir.is_dir():
            return []
        known = set(self.run_ids())
        with os.scandir(self.runs_dir) as entries:
            folders = [each.name for each in entries if each.name not in known and each.is_dir()]
        names = filter(_RUN_ID.fullmatch, folders)
        return sorted(filter(self.is_lost, names), key=run_order)

    def is_lost(self, run_id: str) -> bool:
        """Whether a run has a journal or evidence but no record."""
        kept = (self.journal_path(run_id), self.evidence_summary_path(run_id))
        return not self.run_path(run_id).exists() and any(path.exists() for path in kept)


def user_folder() -> Path:
    """Return the folder of the user's settings and signing key, which need not exist."""
    base = os.environ.get("XDG_CONFIG_HOME") or Path("~/.config").expanduser()
    return Path(base) / "critiqor"


def user_settings_path() -> Path:
    """Return the path of the user's file of settings, whether it exists or not."""
    return user_folder() / "config.toml"


def paths_for(runs_dir: str | Path) -> SessionPaths:
    """Return the absolute paths of a runs folder, which need not exist."""
    return SessionPaths(Path(runs_dir).expanduser().absolute())


def checked_slot(name: str | None) -> str | None:
    """Return the name of a slot, as paths contain it; None for the default one. Raise `UsageError` if it is invalid."""
    if name is None or name == DEFAULT_SLOT:
        return None
    if not _SLOT_NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no name of a slot", fix="use at most 64 letters, digits, - and _")
    return name


def _checked(run_id: str) -> str:
    if not _RUN_ID.fullmatch(run_id):
        raise UsageError(f"{run_id!r} is not a valid run id", fix="critiqor runs lists the runs in this folder")
    return run_id


def run_order(name: str) -> tuple[int, str]:
    """Return a key that sorts the ids of runs by age, the oldest first."""
    digits = re.search(r"\d+$", name)
    return (int(digits.group()) if digits else 0, name)
