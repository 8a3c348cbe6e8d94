"""The folder that an agent works in: made if it is missing, and another one where the run is sandboxed.

A sandbox begins with copies of what the agent is told in its workspace: bootstrap files, memory and skills. They are
taken once, when the folder is new. Only plain files are copied; a link could bring in anything.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

from critiqor.agentloop.context.bootstrap import OPTIONAL, REQUIRED
from critiqor.errors import CritiqorError

MAX_SEEDED_FILES = 1_000
MAX_SEEDED_BYTES = 64 * 1024 * 1024
_SEEDED_FOLDERS = ("memory", "skills")


class Workspace(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run works."""

    folder: Path
    sandboxed: bool = False
    """Whether its file tools cannot leave the folder."""
    agent_folder: Path
    """The workspace of the agent, which its instructions and skills are read from; the same without a sandbox."""


def prepare_workspace(agent_folder: Path, session_key: str, sandbox_root: Path | None = None) -> Workspace:
    """Make the workspace of a run; with `sandbox_root` it is a folder of its own there, one for each session."""
    agent_folder = _made(agent_folder)
    if sandbox_root is None:
        return Workspace(folder=agent_folder, agent_folder=agent_folder)
    folder = sandbox_root / sandbox_name(session_key)
    is_new = not folder.exists()
    folder = _made(folder)
    if is_new:
        _seed(agent_folder, folder)
    return Workspace(folder=folder, sandboxed=True, agent_folder=agent_folder)


def sandbox_name(session_key: str) -> str:
    """The name of a session's folder: readable, and no other session has it."""
    readable = re.sub(r"[^A-Za-z0-9]+", "-", session_key).strip("-")[:40] or "session"
    return f"{readable}-{hashlib.sha256(session_key.encode('utf-8', 'replace')).hexdigest()[:10]}"


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return folder.resolve()
    except OSError as error:
        raise CritiqorError(
            f"the workspace {folder} cannot be made: {error.strerror}",
            fix="set agents.defaults.workspace to a folder that you may write to",
        ) from error


def _seed(source: Path, folder: Path) -> None:
    room = MAX_SEEDED_BYTES
    for count, file in enumerate(_seeds(source)):
        target = folder / file.relative_to(source)
        try:
            room -= file.stat().st_size
            if count >= MAX_SEEDED_FILES or room < 0:
                return
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target, follow_symlinks=False)
        except OSError:
            # A file that cannot be copied is one that the agent does without.
            continue


def _seeds(source: Path) -> Iterator[Path]:
    for name in (*REQUIRED, *OPTIONAL):
        if _is_plain(source / name):
            yield source / name
    for name in _SEEDED_FOLDERS:
        if (source / name).is_symlink():
            continue
        for folder, folders, files in os.walk(source / name):
            folders.sort()
            yield from (path for file in sorted(files) if _is_plain(path := Path(folder, file)))


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()
