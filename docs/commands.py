"""Write the help texts into the pages of the verbs, and the list of verbs, so that they match the code.

python docs/commands.py

Text outside of the marks in docs/commands/VERB.md is written by hand and kept. A verb without a page gets one.
"""

from __future__ import annotations

from pathlib import Path

import click

from critiqor.cli.root_command import VERBS, critiqor

HERE = Path(__file__).parent
BEGIN = "<!-- help: written by docs/commands.py -->"
END = "<!-- /help -->"


def pages() -> dict[Path, str]:
    """Return every file with help texts, as it should be."""
    root = click.Context(critiqor)
    made = {HERE / "commands.md": _index()}
    for verb in VERBS:
        command = critiqor.get_command(root, verb)
        assert command is not None
        page = HERE / "commands" / f"{verb}.md"
        made[page] = _with_help(_written_by_hand(page, verb), command, f"critiqor {verb}")
    return made


def _index() -> str:
    rows = "\n".join(f"| [`{verb}`](commands/{verb}.md) | {summary} |" for verb, summary in VERBS.items())
    return (
        "# Commands\n\nOne page per verb: when to use it, an example, its exit codes, and all options.\n"
        "Results are drawn in a terminal and are plain text in a pipe; the examples show both.\n\n"
        f"| verb | what it does |\n| --- | --- |\n{rows}\n\n"
        "## Options before the verb\n\n"
        f"{_help(critiqor, 'critiqor')}\n"
        "## Exit codes\n\n"
        "| code | meaning |\n| --- | --- |\n"
        "| 0 | success |\n| 1 | error; the message names the cause and the next command |\n"
        "| 2 | invalid command line, setting or policy |\n"
        "| 3 | a gate failed: `check`, `lab run`, `monitor --check`; or a limit of the policy ended `monitor` |\n"
        "| 124, 127, 130 | timed out, OpenClaw not found, interrupted |\n\n"
        "`monitor` returns the exit code of OpenClaw. With `--json`, errors are JSON too: [schemas](schemas.md).\n"
    )


def _written_by_hand(page: Path, verb: str) -> str:
    if page.is_file():
        return page.read_text(encoding="utf-8")
    return f"# critiqor {verb}\n\n{VERBS[verb]}\n\n## Help\n\n{BEGIN}\n{END}\n"


def _with_help(text: str, command: click.Command, path: str) -> str:
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    blocks = "\n".join(_help(each, name) for name, each in _commands(command, path))
    return f"{before}{BEGIN}\n{blocks}{END}{after}"


def _commands(command: click.Command, path: str) -> list[tuple[str, click.Command]]:
    found = [(path, command)]
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=path)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if child is not None:
                found += _commands(child, f"{path} {name}")
    return found


def _help(command: click.Command, path: str) -> str:
    # A context created by hand does not have the settings of the command, such as `-h`.
    settings = {**command.context_settings, "terminal_width": 100, "max_content_width": 100}
    text = command.get_help(click.Context(command, info_name=path, **settings))
    return f"```\n{text.strip()}\n```\n"


if __name__ == "__main__":
    (HERE / "commands").mkdir(exist_ok=True)
    for page, text in pages().items():
        page.write_text(text, encoding="utf-8")
