"""Attach to an OpenClaw that Critiqor did not launch, and detach from it.

`attach` starts a session, `finalize` ends it, and the next `attach` starts the next one.

The recorder stays in OpenClaw's settings from the first `attach` to `detach`; in between, only a small file changes,
which names the run to record. Such an OpenClaw is not supervised, so its session has no owner: the evidence has no
start and end of the process, and a restarted gateway continues the same session.

Every change is written to a file before it is made, so that `detach` can undo it at any time.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from critiqor.errors import ActiveSessionError, CritiqorError
from critiqor.model import EventType, Metadata
from critiqor.openclaw import (
    PLUGIN_ID,
    Attachment,
    AttachmentFolder,
    AttachmentPlan,
    OpenClawCommands,
    SettingsLock,
    locate_configuration,
    plugin_folder,
)
from critiqor.openclaw.attachment import Rewritten
from critiqor.run.active_slot import refuse_second_session, slot_run_id
from critiqor.run.lifecycle import abort, start_session
from critiqor.run.store import Run, RunStore
from critiqor.storage import paths_for
from critiqor.storage import run_record as records
from critiqor.storage.atomic import open_regular_file

TIMEOUT_SECONDS = 15.0
"""How long to wait for a running gateway to load the recorder."""

Say = Callable[[str], None]


class AttachOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which OpenClaw to attach to, and the metadata of the run."""

    runs_dir: str | Path = "runs"
    openclaw_command: str = "openclaw"
    arguments: tuple[str, ...] = ()
    """Global options that choose the OpenClaw: `--profile NAME` or `--dev`."""
    dry_run: bool = False
    """Report what would change without changing anything."""
    slot: str | None = None
    """The slot of the recording; None for the default one."""
    segment: str | None = None
    """When the guard cuts the recording; None if it does not."""
    metadata: dict[str, str] = {}
    """`agent_id`, `tenant_id`, `visibility`, `benchmark_id`, `difficulty_tier`; missing ones get their defaults."""
    timeout: float = TIMEOUT_SECONDS
    """Seconds to wait for a running gateway to load the recorder."""


class Attached(msgspec.Struct, frozen=True, kw_only=True):
    """Result of `attach`; with `dry_run`, what it would do."""

    configuration: str
    changes: list[str]
    """Sentences about what was changed in OpenClaw."""
    dry_run: bool
    run_id: str | None = None
    """The run that is being recorded; null in a dry run."""
    runs_dir: str
    recorder_seen: bool = False
    """Whether the recorder of a running OpenClaw has announced itself in this run."""


class Detached(msgspec.Struct, frozen=True, kw_only=True):
    """Result of `detach`; with `dry_run`, what it would do."""

    configuration: str
    changes: list[str]
    dry_run: bool
    restored: bool = False
    """Whether the configuration was restored byte for byte."""
    rewritten: bool = False
    """Whether OpenClaw has rewritten it in its own format, without the recorder's settings."""
    backup: str | None = None
    """Path of the original configuration, if it was rewritten and the original still exists."""
    run_id: str | None = None
    """The run that was being recorded and can be finalized."""
    runs_dir: str | None = None


def attach_openclaw(options: AttachOptions, *, say: Say, environment: Mapping[str, str] | None = None) -> Attached:
    """Put the recorder into OpenClaw's settings, if it is not there, and start a session.

    `say` is called with one-line messages for the user, before each change is made. A session that is being recorded is
    continued, so `attach` can be called again.
    """
    openclaw = _OpenClaw.find(options, os.environ if environment is None else environment)
    store = RunStore(options.runs_dir)
    runs_dir = store.paths.runs_dir
    run_id = _recorded_run_id(openclaw.folder.read(), options, runs_dir)
    if run_id is None:
        # Before anything changes.
        refuse_second_session(store.paths, options.slot)
    plan = openclaw.folder.plan()
    changes = openclaw.describe_changes(plan)
    result: dict[str, Any] = {"configuration": str(openclaw.folder.configuration.path), "changes": changes}
    if options.dry_run:
        _announce(changes, say)
        return Attached(**result, dry_run=True, runs_dir=str(runs_dir))
    is_new = run_id is None
    with openclaw.held_settings() if changes else contextlib.nullcontext():
        if run_id is None:
            # Before any change, so that of several that begin at the same time only one changes anything.
            metadata, rule = Metadata.parse(**options.metadata), options.segment
            run_id = start_session(store, metadata, owned=False, slot=options.slot, segment=rule).run_id
        _announce(changes, say)
        try:
            openclaw.apply(plan, _recorded(store.run(run_id)))
        except (CritiqorError, OSError, KeyboardInterrupt) as error:
            if is_new:
                abort(store.run(run_id), store, f"the recorder could not be attached: {error or 'interrupted'}")
            if openclaw.folder.file.exists():
                stays = f"what was changed in {openclaw.folder.configuration.path} so far stays"
                say(f"{stays}; to undo it: critiqor detach openclaw")
            raise
    journal = paths_for(runs_dir).journal_path(run_id)
    seen = _is_recorder_announced(journal)
    if not seen and options.timeout and (is_new or changes):
        say(f"waiting at most {options.timeout:.0f} s for a running gateway to load the recorder")
        seen = _wait_for_recorder(journal, options.timeout)
    return Attached(**result, dry_run=False, run_id=run_id, runs_dir=str(runs_dir), recorder_seen=seen)


def detach_openclaw(options: AttachOptions, *, say: Say, environment: Mapping[str, str] | None = None) -> Detached:
    """Remove the recorder from OpenClaw's settings. A session that is being recorded can be finalized afterwards."""
    openclaw = _OpenClaw.find(options, os.environ if environment is None else environment)
    known = openclaw.folder.read()
    result: dict[str, Any] = {"configuration": str(openclaw.folder.configuration.path), "dry_run": options.dry_run}
    if known is None:
        return Detached(**result, changes=[])
    if (current := _current_run_id(known)) is not None:
        result |= {"run_id": current, "runs_dir": known.runs_dir}
    result["changes"] = openclaw.describe_undoing(known)
    if options.dry_run:
        _announce(result["changes"], say)
        return Detached(**result)
    with openclaw.held_settings():
        _announce(result["changes"], say)
        # First, so that nothing more is recorded even if changing the settings fails.
        openclaw.folder.write(msgspec.structs.replace(known, run_id=None, runs_dir=None, slot=None))
        left = openclaw.undo(known)
        openclaw.folder.remove()
    changed = known.installed or bool(known.settings)  # by `attach`, not by the user
    restored = bool(known.files) and not left
    backup = left[0].backup if left else None
    result["backup"] = None if backup is None else str(backup)
    return Detached(**result, restored=restored, rewritten=changed and not restored)


class Recorded(NamedTuple):
    """What an attached OpenClaw records."""

    run_id: str
    """The first run of the recording."""
    runs_dir: str
    slot: str | None
    """The slot that names its current run."""


def _recorded(run: Run) -> Recorded:
    head = run.head()
    return Recorded(head.recording or run.id, str(run.paths.runs_dir), head.slot)


class _OpenClaw(NamedTuple):
    """The OpenClaw to attach to: its commands and its attachment folder."""

    commands: OpenClawCommands
    folder: AttachmentFolder

    @classmethod
    def find(cls, options: AttachOptions, environment: Mapping[str, str]) -> _OpenClaw:
        commands = OpenClawCommands(options.openclaw_command, options.arguments, environment)
        return cls(commands, AttachmentFolder(locate_configuration(options.arguments, environment)))

    def describe_changes(self, plan: AttachmentPlan) -> list[str]:
        """Return sentences about what the plan changes."""
        if not plan.is_needed:
            return []
        changes = []
        if plan.installs:
            command = self.commands.install_command(plugin_folder())
            changes.append(f"the recorder plugin is copied to {self.folder.installed}, by `{command}`")
        for setting in plan.settings:
            what = f"{'.'.join(setting.keys)} becomes {_json(setting.after)} (now {_value(setting.before)})"
            changes.append(f"{what}, by `{self.commands.patch_command}`")
        file = self.folder.configuration.path
        return [
            *changes,
            f"{file} is rewritten by OpenClaw, in its own format without comments; OpenClaw keeps a backup beside it",
            f"{self.folder.file} is written: it names the run to record and what `critiqor detach` restores",
        ]

    @contextmanager
    def held_settings(self) -> Iterator[None]:
        """Keep recordings of this OpenClaw from starting while its settings change. Raise an error if there is one."""
        lock = SettingsLock()
        folder = self.folder.configuration.state_folder
        try:
            is_free = lock.take(folder)
        except OSError:
            is_free = True  # there is no state folder yet, or its file system has no locks
        if not is_free:
            raise ActiveSessionError(
                f"nothing was changed: a `critiqor` command is recording the OpenClaw in {folder} or changes its "
                "settings, which would be disturbed",
                fix="critiqor runs   shows what is recorded; attach or detach when it has ended",
            )
        try:
            yield
        finally:
            lock.release()

    def apply(self, plan: AttachmentPlan, recorded: Recorded) -> None:
        """Make the changes with OpenClaw's commands, and name the run to record.

        If the first command fails, everything is cleaned up; otherwise the changes stay until `detach`.
        """
        if not plan.is_needed:
            self.folder.write(_with_run(self.folder.read() or self.folder.empty(), recorded))
            return
        is_new = self.folder.read() is None and not self.folder.installed.exists()
        # With the run: an `attach` that is killed after this is continued by the next one.
        attachment = _with_run(self.folder.save(plan), recorded)
        self.folder.write(attachment)
        try:
            if plan.installs:
                self.commands.install(plugin_folder())
            # Planned again, because the installation sets some of the settings itself.
            if patch := self.folder.plan().patch:
                self.commands.patch(patch)
        except (CritiqorError, KeyboardInterrupt) as error:
            settings = _json(_with_plugin(plan))
            fix = f"critiqor attach openclaw   after adding these settings to OpenClaw's configuration: {settings}"
            if is_new and self.folder.is_as_saved(attachment):
                self.folder.remove_copy()  # an older OpenClaw copies the plugin before it checks its configuration
                self.folder.remove()
            else:
                fix = f"critiqor detach openclaw   to undo the changes made so far; or {fix}"
            if isinstance(error, KeyboardInterrupt):
                raise
            raise CritiqorError(error.message, fix=error.fix or fix) from error
        self.folder.write(self.folder.with_digests(attachment))

    def describe_undoing(self, attachment: Attachment) -> list[str]:
        """Return sentences about what removing the recorder changes."""
        changes = []
        if attachment.installed:
            command = self.commands.uninstall_command(PLUGIN_ID)
            changes.append(f"{self.folder.installed} is removed, by `{command}`")
        for setting in attachment.settings:
            what = f"{'.'.join(setting.keys)} becomes {_value(setting.before)} again"
            changes.append(f"{what}, by `{self.commands.patch_command}` if still needed")
        if self.folder.originals(attachment):
            file = self.folder.configuration.path
            changes.append(f"{file} is restored byte for byte, unless OpenClaw would treat the original as damaged")
        return [*changes, f"{self.folder.path} is removed"]

    def undo(self, attachment: Attachment) -> list[Rewritten]:
        """Undo the changes with OpenClaw's commands. Returns the files that are not restored byte for byte."""
        originals = self.folder.originals(attachment)
        try:
            if attachment.installed:
                self._uninstall()
            if patch := self.folder.undo_patch(attachment):
                self.commands.patch(patch)
        except CritiqorError as error:
            fix = "openclaw doctor, then: critiqor detach openclaw"
            raise CritiqorError(error.message, fix=error.fix or fix) from error
        return self.folder.restore(attachment, originals)

    def _uninstall(self) -> None:
        try:
            self.commands.uninstall(PLUGIN_ID)
        except CritiqorError:
            if not self.folder.installed.exists():
                return  # removed by the user, or by an earlier `detach` that was killed
            if not self.folder.is_known:
                self.folder.remove_copy()  # copied by an `attach` that was killed: OpenClaw does not know it
            elif shorter := self.folder.shortening_patch():
                # OpenClaw 2026.6.1 refuses a change that makes its configuration less than half as long.
                self.commands.patch(shorter)
                self.commands.uninstall(PLUGIN_ID)
            else:
                raise


def _with_run(attachment: Attachment, recorded: Recorded) -> Attachment:
    return msgspec.structs.replace(attachment, **recorded._asdict())


def _announce(changes: list[str], say: Say) -> None:
    for change in changes:
        say(f"change: {change}")


def _with_plugin(plan: AttachmentPlan) -> dict[str, Any]:
    """Return the settings for an OpenClaw that cannot write its configuration itself."""
    plugins = plan.patch.get("plugins", {})
    return {"plugins": {"load": {"paths": [str(plugin_folder())]}, **plugins} if plan.installs else plugins}


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _value(setting: Any) -> str:
    return "not set" if setting is None else _json(setting)


def _current_run_id(attachment: Attachment) -> str | None:
    """Return the run that an attached OpenClaw records now; None if its recording has ended."""
    if attachment.run_id is None or attachment.runs_dir is None:
        return None
    paths = paths_for(attachment.runs_dir)
    for run_id in (attachment.run_id, slot_run_id(paths, attachment.slot)):
        with contextlib.suppress(CritiqorError, OSError):
            head = records.load_head(paths, run_id) if run_id is not None else None
            is_of_recording = head is not None and attachment.run_id in (head.run_id, head.recording)
            if head is not None and is_of_recording and head.status == "MONITORING":
                return head.run_id
    return None


def _recorded_run_id(attachment: Attachment | None, options: AttachOptions, runs_dir: Path) -> str | None:
    run_id = None if attachment is None else _current_run_id(attachment)
    if attachment is None or run_id is None:
        return None
    if (attachment.runs_dir, attachment.slot) != (str(runs_dir), options.slot):
        raise ActiveSessionError(
            f"this OpenClaw is being recorded as {run_id} in {attachment.runs_dir}",
            fix=f"critiqor finalize {run_id} --runs-dir {attachment.runs_dir}",
        )
    return run_id


class _FirstRecord(msgspec.Struct):
    event_type: str


def _is_recorder_announced(journal: Path) -> bool:
    """Whether the first record of the journal announces a recorder."""
    try:
        with open_regular_file(journal, buffering=1 << 16) as lines:
            first = msgspec.json.decode(lines.readline(1 << 16), type=_FirstRecord)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return first.event_type == EventType.RECORDER_ATTACHED


def _wait_for_recorder(journal: Path, timeout: float) -> bool:
    until = time.monotonic() + timeout
    while not (seen := _is_recorder_announced(journal)) and time.monotonic() < until:
        time.sleep(0.1)
    return seen


__all__ = ["AttachOptions", "Attached", "Detached", "attach_openclaw", "detach_openclaw"]
