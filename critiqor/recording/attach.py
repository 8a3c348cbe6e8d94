"""Sessions of an OpenClaw that runs by itself: `attach` begins one, `finalize` ends it, `attach` begins the next.

The recorder sits in OpenClaw's settings from the first `attach` to `detach`; in between, only a file says which run it
writes to. Nobody supervises such an OpenClaw, so a session has no owner: it knows what agents did, not when the process
began or ended, and a gateway that is restarted goes on with it.

Every step leaves something that `detach` can take back: what is going to change is written down before it changes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from critiqor.errors import ActiveSessionError, CritiqorError
from critiqor.model import EventType
from critiqor.openclaw import (
    PLUGIN_ID,
    Attachment,
    AttachmentFolder,
    AttachmentPlan,
    OpenClawCommands,
    locate_configuration,
    plugin_folder,
)
from critiqor.openclaw.attachment import Rewritten
from critiqor.session import create_attached_session, paths_for
from critiqor.storage import run_record as records

PATIENCE_SECONDS = 15.0
"""How long a running gateway may take to load the recorder before it is said that none has."""

Say = Callable[[str], None]


class AttachOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which OpenClaw, and whose run it is."""

    runs_dir: str | Path = "runs"
    openclaw_command: str = "openclaw"
    arguments: tuple[str, ...] = ()
    """Global options that choose the OpenClaw: `--profile NAME` or `--dev`."""
    dry_run: bool = False
    """Say what would change, and change nothing."""
    metadata: dict[str, str] = {}
    """`agent_id`, `tenant_id`, `visibility`, `benchmark_id`, `difficulty_tier`, where given."""
    patience: float = PATIENCE_SECONDS


class Attached(msgspec.Struct, frozen=True, kw_only=True):
    """What `attach` did, or would do."""

    configuration: str
    changes: list[str]
    """What was changed in OpenClaw, in words."""
    dry_run: bool
    run_id: str | None = None
    """The run that is being recorded; none in a dry run."""
    runs_dir: str
    recorder_seen: bool = False
    """Whether a running OpenClaw has said that it records this run."""


class Detached(msgspec.Struct, frozen=True, kw_only=True):
    """What `detach` did, or would do."""

    configuration: str
    changes: list[str]
    dry_run: bool
    restored: bool = False
    """Whether the configuration is what it was, byte for byte."""
    rewritten: bool = False
    """Whether it is in OpenClaw's own format instead, without the recorder's settings."""
    backup: str | None = None
    """Where it is as it was, if it was rewritten and that is still known."""
    run_id: str | None = None
    """The run that was being recorded, and can be finalized."""
    runs_dir: str | None = None


def attach_openclaw(options: AttachOptions, *, say: Say, environment: Mapping[str, str] | None = None) -> Attached:
    """Put the recorder into OpenClaw's settings, as far as it is not there, and begin a session.

    `say` gets one-line messages for the user: what changes is said before it is done. A session that goes on is left
    alone, so it can be called again.
    """
    openclaw = _OpenClaw.chosen(options, os.environ if environment is None else environment)
    runs_dir = paths_for(options.runs_dir).runs_dir
    known = openclaw.folder.read()
    run_id = _run_that_goes_on(known, runs_dir)
    if run_id is None:
        _refuse_taken_slot(runs_dir)
    plan = openclaw.folder.plan()
    changes = _announced(openclaw.changes(plan), say)
    told: dict[str, Any] = {"configuration": str(openclaw.folder.configuration.path), "changes": changes}
    if options.dry_run:
        return Attached(**told, dry_run=True, runs_dir=str(runs_dir))
    attachment = openclaw.apply(plan) if changes else known or openclaw.folder.nothing()
    begins = run_id is None
    if run_id is None:
        # Last of all: what went wrong until now leaves no session behind.
        run_id = str(create_attached_session(runs_dir, **options.metadata)["run_id"])
    openclaw.folder.write(msgspec.structs.replace(attachment, run_id=run_id, runs_dir=str(runs_dir)))
    journal = paths_for(runs_dir).journal_path(run_id)
    seen = _recorder_seen(journal)
    if not seen and options.patience and (begins or changes):
        say(f"waiting for a running gateway to load the recorder, {options.patience:.0f} s at most")
        seen = _wait_for_recorder(journal, options.patience)
    return Attached(**told, dry_run=False, run_id=run_id, runs_dir=str(runs_dir), recorder_seen=seen)


def detach_openclaw(options: AttachOptions, *, say: Say, environment: Mapping[str, str] | None = None) -> Detached:
    """Take the recorder out of OpenClaw's settings. A session that goes on is left to be finalized."""
    openclaw = _OpenClaw.chosen(options, os.environ if environment is None else environment)
    known = openclaw.folder.read()
    told: dict[str, Any] = {"configuration": str(openclaw.folder.configuration.path), "dry_run": options.dry_run}
    if known is None:
        return Detached(**told, changes=[])
    if _is_going_on(known):
        told |= {"run_id": known.run_id, "runs_dir": known.runs_dir}
    told["changes"] = _announced(openclaw.takings_back(known), say)
    if options.dry_run:
        return Detached(**told)
    # First of all: whatever becomes of the settings, nothing more is recorded.
    openclaw.folder.write(msgspec.structs.replace(known, run_id=None, runs_dir=None))
    left = openclaw.take_back(known)
    openclaw.folder.forget()
    changed = known.installed or bool(known.settings)  # by us, and not by the user's own hand
    restored = bool(known.files) and not left
    backup = left[0].backup if left else None
    told["backup"] = None if backup is None else str(backup)
    return Detached(**told, restored=restored, rewritten=changed and not restored)


class _OpenClaw(NamedTuple):
    commands: OpenClawCommands
    folder: AttachmentFolder

    @classmethod
    def chosen(cls, options: AttachOptions, environment: Mapping[str, str]) -> _OpenClaw:
        commands = OpenClawCommands(options.openclaw_command, options.arguments, environment)
        return cls(commands, AttachmentFolder(locate_configuration(options.arguments, environment)))

    def changes(self, plan: AttachmentPlan) -> list[str]:
        """What the plan changes, in words."""
        if not plan.is_needed:
            return []
        changes = []
        if plan.installs:
            command = self.commands.installing(plugin_folder())
            changes.append(f"the recorder plugin is copied to {self.folder.installed}, by `{command}`")
        for setting in plan.settings:
            what = f"{'.'.join(setting.keys)} becomes {_json(setting.after)} (now {_value(setting.before)})"
            changes.append(f"{what}, by `{self.commands.patching}`")
        file = self.folder.configuration.path
        return [
            *changes,
            f"{file} is written anew by OpenClaw, in its own format and without comments; it keeps a backup beside it",
            f"{self.folder.file} is written: it says which run to record, and what to put back",
        ]

    def apply(self, plan: AttachmentPlan) -> Attachment:
        """Let OpenClaw make the changes. If it refuses the very first, nothing of ours stays behind."""
        is_new = self.folder.read() is None and not self.folder.installed.exists()
        attachment = self.folder.save(plan)
        try:
            if plan.installs:
                self.commands.install(plugin_folder())
            # What the installation has set by itself is left out.
            if patch := self.folder.plan().patch:
                self.commands.patch(patch)
        except CritiqorError as error:
            fix = f"add these settings yourself and type this again: {_json(_with_plugin(plan))}"
            if is_new and self.folder.is_as_saved(attachment):
                self.folder.remove_copy()  # an older OpenClaw copies the plugin before it finds that it cannot
                self.folder.forget()
            else:
                fix = f"critiqor detach openclaw takes back what is done; or {fix}"
            raise CritiqorError(error.message, fix=error.fix or fix) from error
        return self.folder.settled(attachment)

    def takings_back(self, attachment: Attachment) -> list[str]:
        """What taking the recorder out changes, in words."""
        changes = []
        if attachment.installed:
            command = self.commands.uninstalling(PLUGIN_ID)
            changes.append(f"{self.folder.installed} is removed, by `{command}`")
        for setting in attachment.settings:
            what = f"{'.'.join(setting.keys)} becomes {_value(setting.before)} again"
            changes.append(f"{what}, by `{self.commands.patching}` where that is still needed")
        if self.folder.originals(attachment):
            file = self.folder.configuration.path
            changes.append(f"{file} is put back byte for byte, unless OpenClaw would take what it was for damage")
        return [*changes, f"{self.folder.path} is removed"]

    def take_back(self, attachment: Attachment) -> list[Rewritten]:
        """Let OpenClaw undo the changes. Returns the files that are not what they were, byte for byte."""
        originals = self.folder.originals(attachment)
        try:
            if attachment.installed:
                self._uninstall()
            if patch := self.folder.undoing(attachment):
                self.commands.patch(patch)
        except CritiqorError as error:
            fix = "openclaw doctor, then critiqor detach openclaw again"
            raise CritiqorError(error.message, fix=error.fix or fix) from error
        return self.folder.restore(attachment, originals)

    def _uninstall(self) -> None:
        try:
            self.commands.uninstall(PLUGIN_ID)
        except CritiqorError:
            if not self.folder.installed.exists():
                return  # somebody was quicker, or an earlier `detach` died right after it
            if not self.folder.is_known:
                self.folder.remove_copy()  # copied by an `attach` that died: OpenClaw knows nothing of it
            elif shorter := self.folder.shortening():
                # OpenClaw 2026.6.1 refuses to make a configuration half as long at once.
                self.commands.patch(shorter)
                self.commands.uninstall(PLUGIN_ID)
            else:
                raise


def _announced(changes: list[str], say: Say) -> list[str]:
    for change in changes:
        say(f"change: {change}")
    return changes


def _with_plugin(plan: AttachmentPlan) -> dict[str, Any]:
    """The settings for somebody whose OpenClaw does not write its configuration itself."""
    plugins = plan.patch.get("plugins", {})
    return {"plugins": {"load": {"paths": [str(plugin_folder())]}, **plugins} if plan.installs else plugins}


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _value(setting: Any) -> str:
    return "not set" if setting is None else _json(setting)


def _is_going_on(attachment: Attachment) -> bool:
    """Whether the attached run still takes events."""
    if attachment.run_id is None or attachment.runs_dir is None:
        return False
    try:
        head = records.load_head(paths_for(attachment.runs_dir), attachment.run_id)
    except (CritiqorError, OSError):
        return False
    return head.status == "MONITORING"


def _run_that_goes_on(attachment: Attachment | None, runs_dir: Path) -> str | None:
    if attachment is None or not _is_going_on(attachment):
        return None
    if attachment.runs_dir != str(runs_dir):
        raise ActiveSessionError(
            f"this OpenClaw is being recorded as {attachment.run_id} in {attachment.runs_dir}",
            fix=f"critiqor finalize {attachment.run_id} --runs-dir {attachment.runs_dir}",
        )
    return attachment.run_id


def _refuse_taken_slot(runs_dir: Path) -> None:
    """That no session can begin is said before anything changes."""
    record = records.active_record(paths_for(runs_dir))
    if record is not None:
        raise ActiveSessionError(
            f"a session is active in this runs folder: {record.run_id} is {record.status}",
            fix="critiqor finalize   (or: critiqor abort, or another --runs-dir)",
        )


class _FirstRecord(msgspec.Struct):
    event_type: str


def _recorder_seen(journal: Path) -> bool:
    """Whether a recorder has announced itself, as each does first of all."""
    try:
        with journal.open("rb") as lines:
            first = msgspec.json.decode(lines.readline(1 << 16), type=_FirstRecord)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return first.event_type == EventType.RECORDER_ATTACHED


def _wait_for_recorder(journal: Path, patience: float) -> bool:
    until = time.monotonic() + patience
    while not (seen := _recorder_seen(journal)) and time.monotonic() < until:
        time.sleep(0.1)
    return seen


__all__ = ["AttachOptions", "Attached", "Detached", "attach_openclaw", "detach_openclaw"]
