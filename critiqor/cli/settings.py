"""Defaults from files: `critiqor.toml` or `[tool.critiqor]` of `pyproject.toml` in the current folder, and the user's.

A flag outranks an environment variable, which outranks the folder's file, which outranks the user's, which outranks the
built-in default.

A mistake in `critiqor.toml` or in the user's file is an error. A `pyproject.toml` is often somebody else's, so what
cannot be used of it is left out with a warning.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from critiqor.errors import UsageError

KEYS = frozenset(
    {
        "runs_dir",
        "openclaw_command",
        "agent_id",
        "tenant_id",
        "visibility",
        "benchmark_id",
        "difficulty_tier",
        "timeout",
    }
)


_DEEPER = {"monitor": ("openclaw",), "attach": ("openclaw",), "detach": ("openclaw",), "lab": ("run", "from-run")}
USERS_ALONE = frozenset({"openclaw_command"})
"""What a folder may not decide: whoever wrote its files could have anything launched by whoever works in it."""


def default_map(verbs: Iterable[str]) -> dict[str, Any]:
    """Defaults for every verb, as click wants them; verbs of verbs are one level deeper."""
    settings = _users_own() | _of_folder(Path.cwd())
    if not settings:
        return {}
    return {verb: {**settings, **dict.fromkeys(_DEEPER.get(verb, ()), settings)} for verb in verbs}


def _users_own() -> dict[str, Any]:
    base = os.environ.get("XDG_CONFIG_HOME") or Path("~/.config").expanduser()
    path = Path(base) / "critiqor" / "config.toml"
    return _strictly(path, KEYS) if path.is_file() else {}


def _of_folder(folder: Path) -> dict[str, Any]:
    own, shared = folder / "critiqor.toml", folder / "pyproject.toml"
    if own.is_file():
        return _strictly(own, KEYS - USERS_ALONE)
    return _leniently(shared) if shared.is_file() else {}


def _strictly(path: Path, taken: frozenset[str]) -> dict[str, Any]:
    settings = _read(path)
    refused = sorted(settings.keys() - taken)
    if refused:
        message = f"{path.name} does not take: {', '.join(refused)}"
        raise UsageError(message, fix=f"{path.name} takes {', '.join(sorted(taken))}")
    return settings


def _leniently(path: Path) -> dict[str, Any]:
    from critiqor.cli.output import say

    section: Any = {}
    try:
        section = _read(path)
        for name in ("tool", "critiqor"):
            section = section.get(name, {})
    except (UsageError, OSError) as error:
        say(f"{path.name} is ignored: {error.message if isinstance(error, UsageError) else error.strerror}")
        return {}
    except AttributeError:
        section = None
    if not isinstance(section, dict):
        say(f"{path.name} is ignored: tool.critiqor is not a table")
        return {}
    taken = KEYS - USERS_ALONE
    usable = {name for name, value in section.items() if name in taken and isinstance(value, str | int | float)}
    if unusable := sorted(section.keys() - usable):
        say(f"{path.name}: these settings are ignored: {', '.join(unusable)}")
    return {name: section[name] for name in usable}


def _read(path: Path) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(path.read_text("utf-8"))
    # ValueError: not TOML, not UTF-8, or a number of thousands of digits.
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path.name} cannot be read: {error}", fix=f"correct {path.name}") from error
