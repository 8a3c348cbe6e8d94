"""Suggested commands: add the user's --runs-dir to them, so that they work when pasted."""

from __future__ import annotations

import re
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

    from critiqor.cli.group import critiqor

    command: click.Command | None = critiqor
    for word in words:
        if not isinstance(command, click.Group):
            break
        command = command.get_command(click.Context(command), word)
    return command is not None and any(option.name == "runs_dir" for option in command.params)
