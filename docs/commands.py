"""Prints docs/commands.md from the help texts, so that it cannot be wrong.

python docs/commands.py > docs/commands.md
"""

from __future__ import annotations

import click

from critiqor.cli.group import critiqor


def reference() -> str:
    """The page, verb by verb."""
    parts = ["# Commands\n\nGenerated from the help texts by `python docs/commands.py`.\n"]
    parts += [_section(command, path) for path, command in _commands(critiqor, "critiqor")]
    return "\n".join(parts)


def _commands(command: click.Command, path: str) -> list[tuple[str, click.Command]]:
    found = [(path, command)]
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=path)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if child is not None:
                found += _commands(child, f"{path} {name}")
    return found


def _section(command: click.Command, path: str) -> str:
    # A context made by hand knows nothing of the command's own settings, such as `-h`.
    settings = {**command.context_settings, "terminal_width": 100, "max_content_width": 100}
    text = command.get_help(click.Context(command, info_name=path, **settings))
    return f"## {path}\n\n```\n{text.strip()}\n```\n"


if __name__ == "__main__":
    print(reference(), end="")
