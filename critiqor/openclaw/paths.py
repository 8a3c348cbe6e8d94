"""Paths by OpenClaw's rules: the home folder that `~` stands for, and absolute paths without resolved links."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def home_folder(environment: Mapping[str, str]) -> Path:
    """Return the home folder by OpenClaw's rules: `OPENCLAW_HOME`, then `HOME`. `~` in a path stands for it."""

    def setting(name: str) -> str:
        value = environment.get(name, "").strip()
        return "" if value in ("undefined", "null") else value

    system_home = setting("HOME") or setting("USERPROFILE") or str(Path.home())
    chosen = setting("OPENCLAW_HOME")
    return expand_path(chosen, Path(system_home)) if chosen else absolute_path(system_home)


def expand_path(text: str, home: Path) -> Path:
    """Make a path absolute as OpenClaw does: `~` is the home folder, the rest is relative to the current folder."""
    text = text.strip()
    return absolute_path(f"{home}{text[1:]}" if text == "~" or text.startswith(("~/", "~\\")) else text)


def absolute_path(path: str) -> Path:
    """Make a path absolute as OpenClaw does, without resolving links."""
    # OpenClaw looks for included files beside the link, not beside its target.
    return Path(os.path.abspath(path))  # noqa: PTH100
