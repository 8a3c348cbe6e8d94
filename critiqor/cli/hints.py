"""Suggested fixes and commands, which work when pasted: with the user's --runs-dir, and `critiqor` as it was called."""

from __future__ import annotations

import errno
import os
import re
import sys
from pathlib import Path
from shlex import quote

_COMMAND = re.compile(r"critiqor [a-z-]+(?: (?!-- |--$)(?:'[^']*'|[^\s'(),;]+))*")
"""A verb with its arguments, up to `--`. The explanation of a command follows two spaces or is in parentheses."""

_runs_dir: str | None = None


def remember_runs_dir(folder: str | None) -> None:
    """Set the --runs-dir of the command line; None if it came from the environment, a file or the default."""
    global _runs_dir
    _runs_dir = folder


def add_runs_dir(hint: str) -> str:
    """Add the --runs-dir of the command line to every command in a hint that takes one."""
    return hint if _runs_dir is None else _COMMAND.sub(_add_to_command, hint)


def _add_to_command(match: re.Match[str]) -> str:
    command = match[0]
    if _runs_dir is None or "--runs-dir" in command or not _takes_runs_dir(command.split()[1:]):
        return command
    return f"{command} --runs-dir {quote(_runs_dir)}"


def _takes_runs_dir(words: list[str]) -> bool:
    import click

    from critiqor.cli.root_command import critiqor

    command: click.Command | None = critiqor
    for word in words:
        if not isinstance(command, click.Group):
            break
        command = command.get_command(click.Context(command), word)
    return command is not None and any(option.name == "runs_dir" for option in command.params)


def stop_command(run_id: str) -> str:
    """Return the command to suggest for stopping every process launched for a run."""
    return add_runs_dir(f"critiqor abort --stop {run_id}")


def critiqor_command() -> str:
    """Return how suggested commands call `critiqor` from the current shell: by its path if it is not on PATH."""
    import shutil

    called = Path(sys.argv[0])
    found = shutil.which("critiqor")
    if found is not None and (called.name != "critiqor" or called.resolve() == Path(found).resolve()):
        return "critiqor"
    return quote(sys.argv[0]) if called.name == "critiqor" else f"{quote(sys.executable)} -m critiqor"


def file_error_hint(error: OSError) -> str | None:
    """Return a hint for a file error; None if the fix depends on what the user wanted."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "free some space on that disk, then run the command again"
    if error.errno == errno.EROFS:
        return "choose a folder that is writable"
    if not isinstance(error.filename, str):
        return None
    path = Path(error.filename).absolute()
    # lexists: a folder without search permission exists too.
    existing = next(each for each in (path, *path.parents) if os.path.lexists(each))
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"ls -ld {quote(str(existing))}   shows who may use it"
    if error.errno == errno.ENOENT and existing not in (path, path.parent):
        return f"mkdir -p {quote(str(path.parent))}"
    return None
