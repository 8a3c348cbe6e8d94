"""The recorder plugin in OpenClaw: its folder, the settings that enable it, and what prevents it from loading."""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path
from typing import Any

import msgspec

from critiqor.errors import UsageError
from critiqor.openclaw.configuration import ConfigurationFile, read_document
from critiqor.storage.atomic import read_regular_file

PLUGIN_ID = "critiqor"
"""The id of the recorder plugin in OpenClaw."""

MAX_INCLUDED_BYTES = 2 * 1024 * 1024
"""Maximum size of a file that OpenClaw includes."""


class PluginPolicy(msgspec.Struct, frozen=True):
    """The plugin settings of a configuration, with its includes resolved."""

    enabled: bool = True
    """False if `plugins.enabled` is false: no plugin is loaded."""
    allow: tuple[str, ...] | None = None
    """The only plugins that may be loaded; None means any, and so does an empty list in OpenClaw."""
    deny: tuple[str, ...] = ()
    """Plugins that are never loaded, regardless of the other settings."""
    named: tuple[str, ...] = ()
    """Plugins that have settings in the file: in `plugins.entries`, `plugins.slots` and `channels`."""
    problem: str | None = None
    """Why the file could not be read; the other fields then have OpenClaw's defaults."""


class Obstacle(msgspec.Struct, frozen=True):
    """Why OpenClaw cannot load the recorder plugin. `str()` returns one sentence with what to do."""

    reason: str
    fix: str
    """What to change."""

    def __str__(self) -> str:
        return f"{self.reason}: {self.fix}."


def plugin_folder() -> Path:
    """Return the folder of the recorder plugin in the installed package."""
    return Path(__file__).resolve().parent.parent / "clawhub" / "critiqor-openclaw"


def plugin_digest() -> str:
    """Return a digest of the files of the recorder plugin, by which a change of them is noticed."""
    digest = hashlib.sha256()
    for path in sorted(plugin_folder().iterdir()):
        with contextlib.suppress(OSError):
            digest.update(path.name.encode() + b"\0" + read_regular_file(path))
    return digest.hexdigest()


def read_plugin_policy(path: Path) -> PluginPolicy:
    """Return what a configuration file says about the recorder plugin: whether it may be loaded.

    Never raises: see `PluginPolicy.problem`.
    """
    try:
        document = read_document(path)
    except UsageError as error:
        return PluginPolicy(problem=error.message)
    plugins = _table(document.get("plugins"))
    slots = [slot for slot in _table(plugins.get("slots")).values() if isinstance(slot, str) and slot != "none"]
    # The key `defaults` is not a channel.
    channels = [channel for channel in _table(document.get("channels")) if channel != "defaults"]
    return PluginPolicy(
        enabled=plugins.get("enabled") is not False,
        allow=_names(plugins["allow"]) if isinstance(plugins.get("allow"), list) else None,
        deny=_names(plugins.get("deny")),
        named=tuple(dict.fromkeys([*_table(plugins.get("entries")), *slots, *channels])),
    )


def why_blocked(configuration: ConfigurationFile, policy: PluginPolicy) -> Obstacle | None:
    """Return what in the user's configuration prevents the recorder plugin from loading, or None."""
    if PLUGIN_ID in policy.deny:
        return Obstacle(
            "Your OpenClaw configuration denies the recorder plugin",
            f'remove "{PLUGIN_ID}" from plugins.deny in {configuration.path}',
        )
    if not configuration.exists:
        return None
    status = configuration.path.stat()
    if status.st_nlink > 1:
        return Obstacle(
            f"{configuration.path} is a hard link, and OpenClaw does not include those",
            "replace it with a copy of itself or with a symbolic link",
        )
    if status.st_size > MAX_INCLUDED_BYTES:
        return Obstacle(
            f"{configuration.path} is larger than two megabytes, and OpenClaw does not include it", "make it smaller"
        )
    return None


def recorder_settings(policy: PluginPolicy) -> dict[str, Any]:
    """Return the settings under `plugins` that enable the recorder plugin. Lists hold only what is added."""
    section: dict[str, Any] = {
        "entries": {PLUGIN_ID: {"enabled": True, "hooks": {"allowConversationAccess": True}}},
    }
    if policy.allow or not policy.enabled:
        # Only if the user has a list: the first name on an empty list would exclude all other plugins.
        section["allow"] = [PLUGIN_ID]
    if not policy.enabled:
        # The user wants no plugins, so only the recorder may load. Being absent from `allow` is not enough: OpenClaw
        # adds plugins and channels that have settings to it, and the memory slot ignores it.
        others = dict.fromkeys((*(policy.allow or ()), *policy.named))
        section |= {
            "enabled": True,
            "deny": [name for name in others if name != PLUGIN_ID],
            "slots": {"memory": "none"},
        }
    return section


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _names(value: Any) -> tuple[str, ...]:
    return tuple(item.strip() for item in value if isinstance(item, str)) if isinstance(value, list) else ()
