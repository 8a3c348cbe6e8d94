"""Find OpenClaw's configuration file and read it with its includes.

Nothing here starts OpenClaw or writes a file. The rules are those of OpenClaw 2026.6.1 and 2026.9.6:

1. `OPENCLAW_CONFIG_PATH` names the file, from the environment or from the `.env` file in the state folder.
2. `--profile NAME` and `--dev` select the state folder `~/.openclaw-NAME`, unless `OPENCLAW_STATE_DIR` is set.
   `OPENCLAW_PROFILE` alone has no effect.
3. Otherwise the file is in the state folder: `OPENCLAW_STATE_DIR`, `~/.openclaw`, or `~/.clawdbot` of an old
   installation. The old file name `clawdbot.json` is used if it exists.

Installed plugins, skills and hooks are in the state folder; but if only `OPENCLAW_CONFIG_PATH` is set, they are beside
that file. The home folder is `OPENCLAW_HOME`, then `HOME`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from critiqor.errors import UsageError
from critiqor.openclaw.command_line import profile_of
from critiqor.openclaw.json5 import Json5Error, parse_json5
from critiqor.openclaw.paths import absolute_path, expand_path, home_folder

MAX_INCLUDE_DEPTH = 10
"""Maximum depth of nested includes that OpenClaw accepts."""

_FILE_NAME = "openclaw.json"
_FILE_NAMES = (_FILE_NAME, "clawdbot.json")
_STATE_FOLDERS = (".openclaw", ".clawdbot")
_DOTENV_LINE = re.compile(
    r"""^\s*(?:export\s+)?(?P<name>\w+)\s*=\s*(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<bare>[^#\n]*))"""
)


class ConfigurationFile(msgspec.Struct, frozen=True):
    """The configuration file that a given OpenClaw command line would use."""

    path: Path
    """Absolute path of the file, which may not exist."""
    exists: bool
    chosen_by: str
    """Why it is this file: "OPENCLAW_CONFIG_PATH", "--profile work", "OPENCLAW_STATE_DIR", "default"."""
    state_folder: Path
    """Folder of sessions and credentials."""
    installs_folder: Path
    """Folder of installed plugins, skills and hooks: that of the file if only `OPENCLAW_CONFIG_PATH` selected it, else
    the state folder."""


def locate_configuration(arguments: Sequence[str], environment: Mapping[str, str]) -> ConfigurationFile:
    """Find the configuration file that `openclaw ARGUMENTS` would read in this environment."""
    home = home_folder(environment)
    state, state_chosen_by = _state_folder(arguments, environment, home)
    profile = profile_of(arguments)
    explicit = environment.get("OPENCLAW_CONFIG_PATH", "").strip()
    if explicit and not (profile and _belongs_to_inherited_profile(explicit, profile, state, environment)):
        path, chosen_by = expand_path(explicit, home), "OPENCLAW_CONFIG_PATH"
    elif profile:
        path, chosen_by = state / _FILE_NAME, state_chosen_by
    elif saved := _saved_setting("OPENCLAW_CONFIG_PATH", state):
        path, chosen_by = expand_path(saved, home), f"OPENCLAW_CONFIG_PATH in {state / '.env'}"
    else:
        folders = [state] if state_chosen_by != "default" else [state, *(home / name for name in _STATE_FOLDERS)]
        candidates = [folder / name for folder in folders for name in _FILE_NAMES]
        path = next((candidate for candidate in candidates if candidate.exists()), state / _FILE_NAME)
        chosen_by = state_chosen_by
    beside = state_chosen_by == "default" and chosen_by.startswith("OPENCLAW_CONFIG_PATH")
    return ConfigurationFile(
        path=path,
        exists=path.is_file(),
        chosen_by=chosen_by,
        state_folder=state,
        installs_folder=path.parent if beside else state,
    )


def read_document(path: Path) -> dict[str, Any]:
    """Read a configuration file of OpenClaw with its includes. Raise `UsageError` if OpenClaw would reject it too."""
    try:
        document = _read_with_includes(path, (absolute_path(str(path)),))
    except _UnreadableError as error:
        raise UsageError(str(error), fix=f"correct {path}") from error
    if not isinstance(document, dict):
        raise UsageError(f"{path} does not contain a JSON object", fix=f"correct {path}")
    return document


def include_roots(configuration: ConfigurationFile, environment: Mapping[str, str]) -> list[str]:
    """Return the folders outside its own from which the configuration may include files."""
    name = "OPENCLAW_INCLUDE_ROOTS"
    value = environment.get(name, "").strip() or _saved_setting(name, configuration.state_folder) or ""
    return [entry.strip() for entry in value.split(os.pathsep) if entry.strip()]


def _state_folder(arguments: Sequence[str], environment: Mapping[str, str], home: Path) -> tuple[Path, str]:
    """Return the state folder and a description of what selected it."""
    explicit = environment.get("OPENCLAW_STATE_DIR", "").strip()
    if profile := profile_of(arguments):
        selected, inherited = _profile_folder(profile, home), _inherited_folder(environment, home)
        words = "--dev" if profile == "dev" and "--dev" in arguments else f"--profile {profile}"
        # The folder of the profile of a surrounding OpenClaw is replaced by that of the requested profile.
        if not explicit or (selected != inherited and expand_path(explicit, home) == inherited):
            return selected, words
    if explicit:
        return expand_path(explicit, home), "OPENCLAW_STATE_DIR"
    existing = next((home / name for name in _STATE_FOLDERS if (home / name).exists()), home / _STATE_FOLDERS[0])
    return existing, "default"


def _belongs_to_inherited_profile(explicit: str, profile: str, state: Path, environment: Mapping[str, str]) -> bool:
    """Return whether `OPENCLAW_CONFIG_PATH` was set by another profile, so that the requested profile replaces it."""
    home = home_folder(environment)
    inherited = _inherited_folder(environment, home)
    switches = state == _profile_folder(profile, home) != inherited
    return switches and expand_path(explicit, home) == inherited / _FILE_NAME


def _inherited_folder(environment: Mapping[str, str], home: Path) -> Path:
    return _profile_folder(environment.get("OPENCLAW_PROFILE", "").strip() or "default", home)


def _profile_folder(profile: str, home: Path) -> Path:
    return home / (".openclaw" if profile.lower() == "default" else f".openclaw-{profile}")


def _saved_setting(name: str, state_folder: Path) -> str | None:
    """Return a variable from the `.env` file in the state folder, which OpenClaw loads at start."""
    try:
        lines = (state_folder / ".env").read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    matches = (match for line in lines if (match := _DOTENV_LINE.match(line)) and match["name"] == name)
    values = [(match["double"] or match["single"] or match["bare"] or "").strip() for match in matches]
    return values[-1] or None if values else None


class _UnreadableError(Exception):
    """The configuration breaks one of OpenClaw's rules for includes."""


def _read_with_includes(path: Path, chain: tuple[Path, ...]) -> Any:
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, ValueError) as error:
        raise _UnreadableError(f"{path} could not be read: {error}") from error
    try:
        return _resolve_includes(parse_json5(text), chain)
    except Json5Error as error:
        raise _UnreadableError(f"{path} is not JSON5: {error}") from error


def _resolve_includes(value: Any, chain: tuple[Path, ...]) -> Any:
    if isinstance(value, list):
        return [_resolve_includes(item, chain) for item in value]
    if not isinstance(value, dict):
        return value
    rest = {key: _resolve_includes(item, chain) for key, item in value.items() if key != "$include"}
    if "$include" not in value:
        return rest
    included = _included(value["$include"], chain)
    if not rest:
        return included
    if not isinstance(included, dict):
        raise _UnreadableError(f"{chain[-1]} adds keys to an included file that does not contain a JSON object")
    return _merge(included, rest)


def _included(target: Any, chain: tuple[Path, ...]) -> Any:
    if isinstance(target, str):
        return _read_included(target, chain)
    if not isinstance(target, list) or not all(isinstance(item, str) for item in target):
        raise _UnreadableError(f"$include in {chain[-1]} is neither a path nor a list of paths")
    merged: Any = {}
    for item in target:
        merged = _merge(merged, _read_included(item, chain))
    return merged


def _read_included(target: str, chain: tuple[Path, ...]) -> Any:
    path = absolute_path(os.path.join(chain[-1].parent, target))  # noqa: PTH118 - an absolute target replaces the folder
    if path in chain:
        raise _UnreadableError(f"{chain[-1]} and {path} include each other")
    if len(chain) > MAX_INCLUDE_DEPTH:
        raise _UnreadableError(f"{chain[-1]} is included more than {MAX_INCLUDE_DEPTH} files deep")
    return _read_with_includes(path, (*chain, path))


def _merge(base: Any, over: Any) -> Any:
    """Merge included files as OpenClaw does: merge objects, join lists, and replace other values with the later one."""
    if isinstance(base, list) and isinstance(over, list):
        return [*base, *over]
    if isinstance(base, dict) and isinstance(over, dict):
        return base | {key: _merge(base[key], value) if key in base else value for key, value in over.items()}
    return over
