"""What puts the recorder into an OpenClaw that runs by itself, and what takes it out again. Nothing here runs OpenClaw.

Such an OpenClaw is not launched by us, so the recorder has to be in its own settings, and OpenClaw's own commands put
it there: `plugins install` copies the plugin to its other ones, `config patch` turns it on. It is copied and not
linked: an OpenClaw 2026.6.1 does not start when the folder of a linked plugin is gone, as it may be with a virtual
environment.

A folder of ours in the state folder holds one file. The recorder reads in it where to record, and we what to put back.
The settings change once, that file with every run.

Trade-offs accepted: OpenClaw writes its configuration anew, in its own format and without comments. It holds secrets,
so we keep no copy, only its digest: where nobody has changed it since, the backup that OpenClaw itself made of it is
put back, byte for byte, unless OpenClaw would take that for damage. Everywhere else only the settings are put back, and
what the file was stays beside it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from critiqor.errors import UsageError
from critiqor.openclaw.configuration import (
    ConfigurationFile,
    PluginPolicy,
    read_document,
    read_plugin_policy,
)
from critiqor.openclaw.overlay import PLUGIN_ID, plugin_folder, recorder_settings, why_blocked
from critiqor.openclaw.saved_file import SavedFile, backup_of, digest_of, keep, looks_damaged, put_back, saved
from critiqor.openclaw.settings import Keys, as_patch, joined, patch_between, patched, setting_at
from critiqor.storage import write_json

ATTACHMENT_SCHEMA = "critiqor.attachment.v1"
# v1: where to record, which settings were changed, and the digests of the files that hold them.

_ENTRY: Keys = ("plugins", "entries", PLUGIN_ID)
_TABLES: tuple[Keys, ...] = (("plugins", "entries"), ("plugins", "slots"), ("plugins",))


class Setting(msgspec.Struct, frozen=True):
    """A setting of OpenClaw that attaching changes."""

    keys: Keys
    after: Any
    """What it becomes."""
    before: Any = None
    """What it was; null where it was not set."""


class Attachment(msgspec.Struct, kw_only=True):
    """The file between the recorder and us: it reads where to record, we read what to put back."""

    schema_version: str = ATTACHMENT_SCHEMA
    run_id: str | None = None
    """The run to record; null where there is none."""
    runs_dir: str | None = None
    """The runs folder of that run, absolute."""
    configuration: str
    """The configuration file of this OpenClaw."""
    installed: bool = False
    """Whether the plugin was copied to OpenClaw's other ones for this."""
    settings: list[Setting] = []
    tables: list[Keys] = []
    """Tables of settings that were not there before."""
    files: list[SavedFile] = []


class Rewritten(NamedTuple):
    """A configuration file that stays as OpenClaw has written it."""

    path: str
    backup: Path | None
    """Where it is as it was; None where nobody knows."""


class AttachmentPlan(msgspec.Struct, frozen=True):
    """What is missing for the recorder to be there."""

    installs: bool
    """Whether the plugin has to be copied to OpenClaw's other ones."""
    settings: tuple[Setting, ...]

    @property
    def is_needed(self) -> bool:
        """Whether anything is missing at all."""
        return self.installs or bool(self.settings)

    @property
    def patch(self) -> dict[str, Any]:
        """The settings as `config patch` takes them."""
        return as_patch({setting.keys: setting.after for setting in self.settings})


class AttachmentFolder:
    """Our folder in the state folder of one OpenClaw, and what its configuration says."""

    def __init__(self, configuration: ConfigurationFile) -> None:
        self.configuration = configuration
        self.path = configuration.state_folder / "critiqor"
        self.file = self.path / "attachment.json"
        """What the recorder reads."""
        self.installed = configuration.installs_folder / "extensions" / PLUGIN_ID
        """Where OpenClaw copies the plugin to."""

    def read(self) -> Attachment | None:
        """What is attached, as far as we have attached it."""
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

    def nothing(self) -> Attachment:
        """An attachment for which nothing had to be changed: the user has done it."""
        return Attachment(configuration=str(self.configuration.path))

    def write(self, attachment: Attachment) -> None:
        """Tell the recorder; it looks by itself."""
        write_json(self.file, attachment)

    def plan(self) -> AttachmentPlan:
        """What is missing of all that the recorder needs. Raises `UsageError` where it cannot be there."""
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
            after = joined(before, value)
            if after != before:
                settings.append(Setting(keys, after, before))
        return AttachmentPlan(not self._is_installed(document), tuple(settings))

    def save(self, plan: AttachmentPlan) -> Attachment:
        """Keep what the plan is going to change. What was kept by an earlier one stays: it is nearer to the user's."""
        known, document = self.read(), read_document(self.configuration.path)
        if known is None or setting_at(document, _ENTRY) is None:
            tables = [keys for keys in _TABLES if setting_at(document, keys) is None]
            copied = known is not None and known.installed
            files = saved(self.configuration.path)
            known = msgspec.structs.replace(self.nothing(), installed=copied, tables=tables, files=files)
        elif not self.is_untouched(known):
            known.files = []  # somebody has changed the configuration since: putting it back would undo that as well
        known.installed |= plan.installs
        kept = {setting.keys for setting in known.settings}
        known.settings += [setting for setting in plan.settings if setting.keys not in kept]
        self.write(known)
        return known

    def settled(self, attachment: Attachment) -> Attachment:
        """The attachment with what the configuration has become."""
        files = [msgspec.structs.replace(file, after=digest_of(file.path)) for file in attachment.files]
        return msgspec.structs.replace(attachment, files=files)

    def is_untouched(self, attachment: Attachment) -> bool:
        """Whether the configuration is what attaching made of it, so that it can be put back as a whole."""
        digests = [(file.after, digest_of(file.path)) for file in attachment.files]
        return bool(digests) and all(after is not None and after == now for after, now in digests)

    def is_as_saved(self, attachment: Attachment) -> bool:
        """Whether nothing has become of the configuration yet."""
        return all(digest_of(file.path) == file.before for file in attachment.files)

    def undoing(self, attachment: Attachment) -> dict[str, Any]:
        """What `config patch` takes to make the settings what they were; empty where they are.

        What somebody else has changed is left alone. Of a list, what was added is taken out.
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
            if setting_at(patched(document, as_patch(patch)), keys) == {}:
                patch = {known: value for known, value in patch.items() if known[: len(keys)] != keys} | {keys: None}
        return as_patch(patch)

    def originals(self, attachment: Attachment) -> dict[str, bytes]:
        """The configuration files as they were, by path; empty where putting them back would undo more than ours.

        They are OpenClaw's own backups, which it moves on with everything it writes: look before it writes again.
        """
        if not self.is_untouched(attachment):
            return {}
        found = {file.path: backup_of(file) for file in attachment.files}
        return {path: backup.read_bytes() for path, backup in found.items() if backup is not None}

    def restore(self, attachment: Attachment, originals: Mapping[str, bytes]) -> list[Rewritten]:
        """Put the configuration back byte for byte, as far as there are originals.

        Returns the files that stay as OpenClaw has written them, also because it would undo anything else.
        """
        left = []
        for file in attachment.files:
            before = originals.get(file.path)
            if not file.is_back and not (before is not None and self._is_let(file, before) and put_back(file, before)):
                backup = backup_of(file)
                if backup is None and before is not None:
                    backup = keep(file, before)  # OpenClaw has pushed out its own while it took ours out
                left.append(Rewritten(file.path, backup))
        return left

    def _is_let(self, file: SavedFile, before: bytes) -> bool:
        """Whether OpenClaw would leave it so: of what is included it has no opinion."""
        path = Path(file.path)
        return path != self.configuration.path or not looks_damaged(before, path.read_bytes())

    @property
    def is_known(self) -> bool:
        """Whether OpenClaw's settings say anything of the recorder."""
        return self.configuration.exists and setting_at(read_document(self.configuration.path), _ENTRY) is not None

    def shortening(self) -> dict[str, Any]:
        """What `config patch` takes to leave no more than the name of the recorder; empty where it is so."""
        entry = setting_at(read_document(self.configuration.path), _ENTRY)
        parts = [name for name in ("config", "hooks") if setting_at(entry, (name,)) is not None]
        return as_patch({(*_ENTRY, name): None for name in parts})

    def remove_copy(self) -> None:
        """Remove the copied plugin, where OpenClaw will not."""
        shutil.rmtree(self.installed, ignore_errors=True)

    def forget(self) -> None:
        """Remove our folder."""
        shutil.rmtree(self.path, ignore_errors=True)

    def _is_installed(self, document: Mapping[str, Any]) -> bool:
        """Whether the plugin, as it is today, is where OpenClaw finds it: copied by it, or named by the user."""
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
