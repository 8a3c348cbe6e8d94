"""Generate the configuration that makes OpenClaw load the recorder plugin, without changing the user's files.

OpenClaw is started with a generated file that includes the user's own and adds the plugin to it. OpenClaw merges an
included file deeply and joins lists, so whatever the user allows, denies and loads stays in force.

Accepted trade-offs: settings cannot be changed from inside a recording. OpenClaw refuses to write to a configuration
that includes another one at its root, except that 2026.9.6 writes what changes under `plugins` into the overlay, where
it is gone after the run. And the user's file becomes an included one, which may not be a hard link or larger than two
megabytes.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from critiqor.openclaw.configuration import ConfigurationFile, include_roots
from critiqor.openclaw.recorder_plugin import (
    PLUGIN_ID,
    PluginPolicy,
    plugin_folder,
    read_plugin_policy,
    recorder_settings,
    why_blocked,
)
from critiqor.storage import write_json

# What OpenClaw keeps in `ConfigurationFile.installs_folder`.
_INSTALLED = (".env", "cron", "extensions", "git", "hooks", "npm", "skills")


class Overlay(msgspec.Struct, frozen=True):
    """A generated configuration for one recorded run."""

    path: Path
    """The generated file."""
    environment: dict[str, str]
    """Variables to add to the environment of OpenClaw."""
    notes: tuple[str, ...]
    """Notes for the user, one sentence each, with what to do."""
    blocked: str | None
    """Why the plugin cannot be loaded, with what to do; None if it can."""
    state_folder: Path
    """The state folder of this OpenClaw."""


def write_overlay(folder: Path, configuration: ConfigurationFile, environment: Mapping[str, str]) -> Overlay:
    """Write the configuration of a recorded run into `folder`, which must belong to the run."""
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / "openclaw.json"
    if path.exists() and configuration.exists and path.samefile(configuration.path):
        raise ValueError(f"{path} is the user's own configuration; an overlay needs another folder")
    base = configuration.path
    policy = read_plugin_policy(base) if configuration.exists else PluginPolicy()
    if not configuration.exists:
        # Even an empty file must be included: without a root include OpenClaw saves settings into the overlay, and
        # they would be gone after the run.
        base = folder / "base.json"
        write_json(base, {})
    loaded = {"load": {"paths": [str(plugin_folder())]}}
    write_json(path, {"$include": str(base), "plugins": {**loaded, **recorder_settings(policy)}})
    _link_hook_transforms(folder, configuration.path.parent)
    obstacle = why_blocked(configuration, policy)
    return Overlay(
        path=path,
        environment={
            "OPENCLAW_CONFIG_PATH": str(path),
            "OPENCLAW_INCLUDE_ROOTS": os.pathsep.join(_roots(base, include_roots(configuration, environment))),
            # Otherwise OpenClaw would look for installed plugins, skills, hooks, scheduled jobs and `.env` beside the
            # overlay, and the recorded agent would differ from the user's.
            "OPENCLAW_STATE_DIR": str(configuration.state_folder),
        },
        notes=tuple(_notes(configuration, policy)),
        blocked=None if obstacle is None else str(obstacle),
        state_folder=configuration.state_folder,
    )


def _roots(base: Path, users: list[str]) -> list[str]:
    # The target of a link counts as well: OpenClaw checks where an included file really is.
    return list(dict.fromkeys([*users, str(base.parent), str(base.resolve().parent)]))


def _notes(configuration: ConfigurationFile, policy: PluginPolicy) -> list[str]:
    notes = [
        "OpenClaw cannot save settings while it is recorded: change them with `openclaw configure`, without critiqor."
    ]
    if not configuration.exists:
        notes.append(
            f"There is no OpenClaw configuration at {configuration.path}: "
            "run `openclaw onboard` first, without critiqor."
        )
    if policy.problem:
        notes.append(f"Your OpenClaw configuration has a problem ({policy.problem}): run `openclaw doctor`.")
    if not policy.enabled:
        notes.append(
            "Your configuration turns plugins off, so only the recorder is loaded: "
            "remove `plugins.enabled: false` to record with your plugins."
        )
    beside = configuration.installs_folder
    lost = [name for name in _INSTALLED if _is_used(beside / name)] if beside != configuration.state_folder else []
    if lost:
        notes.append(
            f"During the recording OpenClaw uses {configuration.state_folder} instead of {', '.join(lost)} in "
            f"{beside}. To use that folder for everything, set OPENCLAW_STATE_DIR={beside}."
        )
    return notes


def _is_used(path: Path) -> bool:
    """Return whether the user has anything there; the recorder plugin and hidden files do not count."""
    if path.name != "extensions":
        return path.exists()
    names = [plugin.name for plugin in path.iterdir()] if path.is_dir() else []
    return any(not name.startswith(".") and name != PLUGIN_ID for name in names)


def _link_hook_transforms(folder: Path, users_folder: Path) -> None:
    """Link webhook transforms beside the overlay, because OpenClaw looks only beside its configuration file."""
    transforms = users_folder / "hooks" / "transforms"
    link = folder / "hooks" / "transforms"
    if transforms.is_dir() and not link.exists():
        link.parent.mkdir(mode=0o700, exist_ok=True)
        # On a file system without links, transforms are missing, but the run can continue.
        with contextlib.suppress(OSError):
            link.symlink_to(transforms, target_is_directory=True)
