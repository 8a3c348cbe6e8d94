"""Plan, record and undo the settings that attach the recorder to an OpenClaw that Critiqor did not launch.

The recorder must be in OpenClaw's own settings, and OpenClaw's own commands put it there: `plugins install` copies the
plugin, `config patch` enables it. The plugin is copied and not linked, because OpenClaw 2026.6.1 does not start when
the folder of a linked plugin is missing, as can happen with a virtual environment. Nothing here runs OpenClaw.

The folder `critiqor` in the state folder holds one file, attachment.json. From it, the recorder reads where to record,
and `critiqor detach` reads what to restore. The settings are changed once, the file for every run.

Accepted trade-offs: OpenClaw rewrites its configuration in its own format, without comments. The configuration holds
secrets, so only its digest is kept. If it has not changed since, the backup that OpenClaw made is restored byte for
byte, unless OpenClaw would treat it as damaged. Otherwise only the settings are restored, and the original file stays
beside the configuration.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from critiqor.errors import UsageError
from critiqor.openclaw.config_patch import Keys, apply_patch, as_patch, merge_setting, patch_between, setting_at
from critiqor.openclaw.configuration import ConfigurationFile, read_document
from critiqor.openclaw.recorder_plugin import (
    PLUGIN_ID,
    PluginPolicy,
    plugin_folder,
    read_plugin_policy,
    recorder_settings,
    why_blocked,
)
from critiqor.openclaw.saved_file import (
    SavedFile,
    digest_of,
    find_original,
    keep_original,
    looks_damaged,
    restore_file,
    saved_files,
)
from critiqor.storage import write_json

ATTACHMENT_SCHEMA = "critiqor.attachment.v1"
# v1: where to record, the changed settings, and the digests of the files that hold them.

_ENTRY: Keys = ("plugins", "entries", PLUGIN_ID)
_TABLES: tuple[Keys, ...] = (("plugins", "entries"), ("plugins", "slots"), ("plugins",))


class Setting(msgspec.Struct, frozen=True):
    """A setting of OpenClaw that attaching changes."""

    keys: Keys
    after: Any
    """The new value."""
    before: Any = None
    """The old value; null if it was not set."""


class Attachment(msgspec.Struct, kw_only=True):
    """attachment.json: the recorder reads where to record, `critiqor detach` reads what to restore."""

    schema_version: str = ATTACHMENT_SCHEMA
    run_id: str | None = None
    """The first run of the recording; null if nothing is to be recorded."""
    runs_dir: str | None = None
    """The absolute path of the runs folder of that run."""
    slot: str | None = None
    """The slot that names the current run of the recording; null for the default one."""
    configuration: str
    """The configuration file of this OpenClaw."""
    installed: bool = False
    """Whether `critiqor attach` installed the plugin."""
    settings: list[Setting] = []
    tables: list[Keys] = []
    """Tables of settings that did not exist before."""
    files: list[SavedFile] = []


class Rewritten(NamedTuple):
    """A configuration file that keeps OpenClaw's format instead of its original text."""

    path: str
    backup: Path | None
    """Path of the original; None if it no longer exists."""


class AttachmentPlan(msgspec.Struct, frozen=True):
    """The changes that are needed to attach the recorder."""

    installs: bool
    """Whether the plugin must be installed."""
    settings: tuple[Setting, ...]

    @property
    def is_needed(self) -> bool:
        """Whether any change is needed."""
        return self.installs or bool(self.settings)

    @property
    def patch(self) -> dict[str, Any]:
        """The settings of the attachment, as input of `openclaw config patch`."""
        return as_patch({setting.keys: setting.after for setting in self.settings})


class AttachmentFolder:
    """The folder `critiqor` in the state folder of one OpenClaw, and the settings of that OpenClaw."""

    def __init__(self, configuration: ConfigurationFile) -> None:
        self.configuration = configuration
        self.path = configuration.state_folder / "critiqor"
        self.file = self.path / "attachment.json"
        """The file that the recorder reads."""
        self.installed = configuration.installs_folder / "extensions" / PLUGIN_ID
        """The folder to which OpenClaw copies the plugin."""

    def read(self) -> Attachment | None:
        """Return the attachment; None if `critiqor attach` has not made one."""
        try:
            attachment = msgspec.json.decode(self.file.read_bytes(), type=Attachment)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            fix = f"openclaw plugins uninstall {PLUGIN_ID} --force, then remove {self.path}"
            raise UsageError(f"{self.file} cannot be read: {error}", fix=fix) from error
        other = attachment.configuration
        if other != str(self.configuration.path):
            raise UsageError(
                f"the recorder is attached to {other}, which has the same state folder as {self.configuration.path}",
                fix=f"OPENCLAW_CONFIG_PATH={other} critiqor detach openclaw",
            )
        return attachment

    def empty(self) -> Attachment:
        """Return an attachment without changes, for an OpenClaw in which the user has configured the recorder."""
        return Attachment(configuration=str(self.configuration.path))

    def write(self, attachment: Attachment) -> None:
        """Write attachment.json; the recorder polls it."""
        write_json(self.file, attachment)

    def plan(self) -> AttachmentPlan:
        """Return the changes that are needed. Raise `UsageError` if OpenClaw cannot load the recorder."""
        if not self.configuration.exists:
            raise UsageError(f"there is no OpenClaw configuration at {self.configuration.path}", fix="openclaw onboard")
        policy = read_plugin_policy(self.configuration.path)
        if policy.problem:
            raise UsageError(policy.problem, fix="openclaw doctor")
        if PLUGIN_ID in policy.deny and (obstacle := why_blocked(self.configuration, policy)):
            raise UsageError(obstacle.reason, fix=obstacle.fix)
        document = read_document(self.configuration.path)
        settings = []
        for keys, value in _wanted_settings(policy, self.file):
            before = setting_at(document, keys)
            after = merge_setting(before, value)
            if after != before:
                settings.append(Setting(keys, after, before))
        return AttachmentPlan(not self._is_installed(document), tuple(settings))

    def save(self, plan: AttachmentPlan) -> Attachment:
        """Write what the plan will change. Values saved by an earlier plan are kept, because they are the user's."""
        known, document = self.read(), read_document(self.configuration.path)
        if known is None or setting_at(document, _ENTRY) is None:
            tables = [keys for keys in _TABLES if setting_at(document, keys) is None]
            copied = known is not None and known.installed
            files = saved_files(self.configuration.path)
            known = msgspec.structs.replace(self.empty(), installed=copied, tables=tables, files=files)
        elif not self.is_untouched(known):
            known.files = []  # the configuration was changed since: restoring it would undo that change as well
        known.installed |= plan.installs
        kept = {setting.keys for setting in known.settings}
        known.settings += [setting for setting in plan.settings if setting.keys not in kept]
        self.write(known)
        return known

    def with_digests(self, attachment: Attachment) -> Attachment:
        """Return the attachment with the digests of the changed configuration."""
        files = [msgspec.structs.replace(file, after=digest_of(file.path)) for file in attachment.files]
        return msgspec.structs.replace(attachment, files=files)

    def is_untouched(self, attachment: Attachment) -> bool:
        """Return whether the configuration is unchanged since attaching, so that whole files can be restored."""
        digests = [(file.after, digest_of(file.path)) for file in attachment.files]
        return bool(digests) and all(after is not None and after == now for after, now in digests)

    def is_as_saved(self, attachment: Attachment) -> bool:
        """Return whether the configuration is unchanged since `save`."""
        return all(digest_of(file.path) == file.before for file in attachment.files)

    def undo_patch(self, attachment: Attachment) -> dict[str, Any]:
        """Return the input of `config patch` that restores the settings; empty if they are restored.

        Settings that were changed since are left alone. From a list, only the added items are removed.
        """
        if not self.configuration.exists:
            return {}
        document = read_document(self.configuration.path)
        patch: dict[Keys, Any] = {}
        for setting in attachment.settings:
            now = setting_at(document, setting.keys)
            if setting.keys == _ENTRY:
                back = setting.before
            elif isinstance(setting.after, list) and isinstance(now, list):
                added = [item for item in setting.after if item not in (setting.before or ())]
                back = [item for item in now if item not in added] or setting.before
            else:
                back = setting.before if now == setting.after else now
            if back != now:
                patch[setting.keys] = patch_between(now, back)
        for keys in attachment.tables:
            if setting_at(apply_patch(document, as_patch(patch)), keys) == {}:
                patch = {known: value for known, value in patch.items() if known[: len(keys)] != keys} | {keys: None}
        return as_patch(patch)

    def originals(self, attachment: Attachment) -> dict[str, bytes]:
        """Return the original configuration files by path; empty if restoring them would undo other changes.

        They are OpenClaw's own backups, which it rotates with every write: read them before OpenClaw writes again.
        """
        if not self.is_untouched(attachment):
            return {}
        found = {file.path: find_original(file) for file in attachment.files}
        return {path: backup.read_bytes() for path, backup in found.items() if backup is not None}

    def restore(self, attachment: Attachment, originals: Mapping[str, bytes]) -> list[Rewritten]:
        """Restore the configuration files of which there are originals, byte for byte.

        Return the files that are not restored, some of them because OpenClaw would revert the change.
        """
        left = []
        for file in attachment.files:
            before = originals.get(file.path)
            if not file.is_original and not (
                before is not None and self._is_accepted(file, before) and restore_file(file, before)
            ):
                backup = find_original(file)
                if backup is None and before is not None:
                    backup = keep_original(file, before)  # OpenClaw has dropped its own backup meanwhile
                left.append(Rewritten(file.path, backup))
        return left

    def _is_accepted(self, file: SavedFile, before: bytes) -> bool:
        """Return whether OpenClaw would accept the original; it does not check included files."""
        path = Path(file.path)
        return path != self.configuration.path or not looks_damaged(before, path.read_bytes())

    @property
    def is_known(self) -> bool:
        """Whether OpenClaw's settings mention the recorder."""
        return self.configuration.exists and setting_at(read_document(self.configuration.path), _ENTRY) is not None

    def shortening_patch(self) -> dict[str, Any]:
        """Return the input of `config patch` that removes the recorder's settings but not its name; empty if done."""
        entry = setting_at(read_document(self.configuration.path), _ENTRY)
        parts = [name for name in ("config", "hooks") if setting_at(entry, (name,)) is not None]
        return as_patch({(*_ENTRY, name): None for name in parts})

    def remove_copy(self) -> None:
        """Remove the copied plugin if OpenClaw does not."""
        shutil.rmtree(self.installed, ignore_errors=True)

    def remove(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.path, ignore_errors=True)

    def _is_installed(self, document: Mapping[str, Any]) -> bool:
        """Return whether the current version of the plugin is installed, or its path is in the user's settings."""
        paths = setting_at(document, ("plugins", "load", "paths"))
        named = [Path(path).expanduser() for path in paths if isinstance(path, str)] if isinstance(paths, list) else []
        return any(_is_same_plugin(folder) for folder in (self.installed, *named))


def _is_same_plugin(folder: Path) -> bool:
    try:
        files = [file for file in plugin_folder().iterdir() if file.is_file()]
        return all((folder / file.name).read_bytes() == file.read_bytes() for file in files)
    except OSError:
        return False


def _wanted_settings(policy: PluginPolicy, file: Path) -> Iterator[tuple[Keys, Any]]:
    for name, value in recorder_settings(policy).items():
        if name == "entries":
            yield _ENTRY, {**value[PLUGIN_ID], "config": {"attachment": str(file)}}
        elif name == "slots":
            yield from ((("plugins", name, slot), owner) for slot, owner in value.items())
        else:
            yield ("plugins", name), value
