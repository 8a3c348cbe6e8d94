"""Commands that a user is told to type next: with the runs folder that he named himself, so that they can be pasted."""

from __future__ import annotations

import re
from shlex import quote

_COMMAND = re.compile(r"critiqor [a-z-]+(?: (?!-- |--$)(?:'[^']*'|[^\s'(),;]+))*")
"""A verb with its words, up to those of another program. What is said of it stands behind two spaces, or in
parentheses."""

_named: str | None = None


def named_folder(folder: str | None) -> None:
    """Remember the runs folder of the command line. What comes from the environment or a file need not be repeated."""
    global _named
    _named = folder


def pasted(hint: str) -> str:
    """A hint of ours whose commands find the runs that the user looks at."""
    return hint if _named is None else _COMMAND.sub(_with_folder, hint)


def _with_folder(found: re.Match[str]) -> str:
    command = found[0]
    if _named is None or "--runs-dir" in command or not _takes_a_folder(command.split()[1:]):
        return command
    return f"{command} --runs-dir {quote(_named)}"


def _takes_a_folder(words: list[str]) -> bool:
    import click

    from critiqor.cli.group import critiqor

    command: click.Command | None = critiqor
    for word in words:
        if not isinstance(command, click.Group):
            break
        command = command.get_command(click.Context(command), word)
    return command is not None and any(option.name == "runs_dir" for option in command.params)
