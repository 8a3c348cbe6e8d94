"""Defaults from files: `critiqor.toml` or `[tool.critiqor]` of `pyproject.toml` in the current folder, and the user's.

A flag outranks an environment variable, which outranks the folder's file, which outranks the user's, which outranks the
built-in default.
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


def default_map(verbs: Iterable[str]) -> dict[str, Any]:
    """Defaults for every verb, as click wants them; `monitor openclaw` is one level deeper."""
    settings = _users_own() | _of_folder(Path.cwd())
    if not settings:
        return {}
    unknown = sorted(settings.keys() - KEYS)
    if unknown:
        message = f"unknown settings: {', '.join(unknown)}"
        raise UsageError(message, fix=f"critiqor.toml takes {', '.join(sorted(KEYS))}")
    return {verb: {**settings, "openclaw": settings} for verb in verbs}


def _users_own() -> dict[str, Any]:
    base = os.environ.get("XDG_CONFIG_HOME") or Path("~/.config").expanduser()
    path = Path(base) / "critiqor" / "config.toml"
    return _read(path) if path.is_file() else {}


def _of_folder(folder: Path) -> dict[str, Any]:
    own, shared = folder / "critiqor.toml", folder / "pyproject.toml"
    if own.is_file():
        return _read(own)
    if shared.is_file():
        section = _read(shared).get("tool", {}).get("critiqor", {})
        if not isinstance(section, dict):
            raise UsageError("tool.critiqor in pyproject.toml is not a table", fix="write it as [tool.critiqor]")
        return section
    return {}


def _read(path: Path) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path.name} cannot be read: {error}", fix=f"correct {path.name}") from error
