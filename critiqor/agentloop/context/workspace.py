"""Workspace folder of a run, which is created if it is missing; a sandboxed run has its own folder.

A new sandbox starts with copies of the bootstrap files, memory and skills of the agent's workspace. Only regular files
are copied, because a link could point anywhere.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

from critiqor.agentloop.configuration import LoopConfiguration
from critiqor.agentloop.context.bootstrap import OPTIONAL, REQUIRED
from critiqor.errors import CritiqorError
from critiqor.openclaw.paths import expand_path

MAX_COPIED_FILES = 1_000
MAX_COPIED_BYTES = 64 * 1024 * 1024
_COPIED_FOLDERS = ("memory", "skills")


class Workspace(msgspec.Struct, frozen=True, kw_only=True):
    """Folders of a run."""

    folder: Path
    sandboxed: bool = False
    """Whether the file tools are confined to the folder."""
    agent_folder: Path
    """The workspace of the agent, from which instructions are read; without a sandbox the same as `folder`."""


def workspace_path(configuration: LoopConfiguration, agent_id: str, state_folder: Path, home: Path) -> Path:
    """Return the workspace folder of an agent, which may not exist yet. Each agent has its own."""
    configured = configuration.defaults.workspace
    base = state_folder / "workspace" if configured is None else expand_path(configured, home)
    return base if agent_id == configuration.default_agent else base.with_name(f"{base.name}-{agent_id}")


def prepare_workspace(agent_folder: Path, session_key: str, sandbox_root: Path | None = None) -> Workspace:
    """Create the workspace of a run; with `sandbox_root` it is a folder below it, one for each session."""
    agent_folder = _create(agent_folder)
    if sandbox_root is None:
        return Workspace(folder=agent_folder, agent_folder=agent_folder)
    folder = sandbox_root / sandbox_name(session_key)
    is_new = not folder.exists()
    folder = _create(folder)
    if is_new:
        _copy_files(agent_folder, folder)
    return Workspace(folder=folder, sandboxed=True, agent_folder=agent_folder)


def sandbox_name(session_key: str) -> str:
    """Return a readable and unique name for the sandbox folder of a session."""
    readable = re.sub(r"[^A-Za-z0-9]+", "-", session_key).strip("-")[:40] or "session"
    return f"{readable}-{hashlib.sha256(session_key.encode('utf-8', 'replace')).hexdigest()[:10]}"


def _create(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return folder.resolve()
    except OSError as error:
        raise CritiqorError(
            f"cannot create the workspace {folder}: {error.strerror}",
            fix="set agents.defaults.workspace to a folder that you may write to",
        ) from error


def _copy_files(source: Path, folder: Path) -> None:
    room = MAX_COPIED_BYTES
    for count, file in enumerate(_files_to_copy(source)):
        target = folder / file.relative_to(source)
        try:
            room -= file.stat().st_size
            if count >= MAX_COPIED_FILES or room < 0:
                return
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target, follow_symlinks=False)
        except OSError:
            # The sandbox works without a file that cannot be copied.
            continue


def _files_to_copy(source: Path) -> Iterator[Path]:
    for name in (*REQUIRED, *OPTIONAL):
        if _is_regular_file(source / name):
            yield source / name
    for name in _COPIED_FOLDERS:
        if (source / name).is_symlink():
            continue
        for folder, folders, files in os.walk(source / name):
            folders.sort()
            yield from (path for file in sorted(files) if _is_regular_file(path := Path(folder, file)))


def _is_regular_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()
