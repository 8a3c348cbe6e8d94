"""What the documents tell a reader to type can be typed."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from critiqor.cli.root_command import critiqor

ROOT = Path(__file__).parent.parent.parent
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
EXAMPLE = tomllib.loads((ROOT / "examples" / "critiqor-example" / "pyproject.toml").read_text())
EXAMPLE_FORMATS = EXAMPLE["project"]["entry-points"]["critiqor.exporters"]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)


class Typed(NamedTuple):
    """A command that a page names."""

    line: str
    whole: bool
    """Whether it stands on a line of its own; within a sentence arguments may be left out."""


def commands_in(text: str) -> list[Typed]:
    """Lines of shell blocks and recipes, lines behind a `$`, and code within a sentence."""
    found: list[Typed] = []
    for language, block in BLOCK.findall(text):
        lines = block.splitlines() if language in ("sh", "yaml") else []
        lines += [line[2:] for line in block.splitlines() if line.startswith("$ ") and not language]
        for line in lines:
            found += [Typed(each, True) for each in re.findall(r"(?:^|[\s(])(critiqor [a-z-][^|&)]*)", line)]
    return found + [Typed(each, False) for each in re.findall(r"(?<!`)`(critiqor [a-z-][^`]*)`", BLOCK.sub("", text))]


def problem_with(typed: Typed) -> str | None:
    """Why it cannot be typed. Names in capitals, brackets and `…` stand for what a reader puts there."""
    words = [word for word in shlex.split(re.sub(r"[\[\]]", "", typed.line), comments=True)[1:] if word != "…"]
    for sign in ("--", ">"):
        words = words[: words.index(sign)] if sign in words else words
    command: click.Command = critiqor
    positional = 0
    while words:
        word = words.pop(0)
        options = {name: option for option in command.params for name in (*option.opts, *option.secondary_opts)}
        if word.startswith("-") and len(word) > 1:
            option = options.get(word)
            if option is None and word not in ("-h", "--help"):
                return f"no option {word}"
            if isinstance(option, click.Option) and not option.is_flag and words:
                value = words.pop(0)
                if isinstance(option.type, click.Choice) and _unknown(value, option.type):
                    return f"no {value} for {word}"
        elif isinstance(command, click.Group):
            deeper = command.get_command(click.Context(command), word)
            if deeper is None:
                return f"no verb {word}"
            command = deeper
        else:
            positional += 1
    wanted = sum(each.required for each in command.params if isinstance(each, click.Argument))
    return "something is missing" if typed.whole and positional < wanted else None


def _unknown(value: str, choice: click.Choice[str]) -> bool:
    """`a|b` names several, capitals and `…` stand for one."""
    return value.islower() and not set(value.split("|")) <= {*choice.choices, *EXAMPLE_FORMATS}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_in_a_page_can_be_typed(page: Path) -> None:
    typed = commands_in(page.read_text())
    assert [f"{each.line}: {why}" for each in typed if (why := problem_with(each))] == []


@pytest.mark.parametrize(
    "text",
    [
        "```sh\ncritiqor shwo run_001\n```",
        "```sh\nfirst && critiqor show run_001 --loud | cat\n```",
        "```yaml\n- run: critiqor report run_001 --format doc\n```",
        "```\n$ critiqor show\ncritiqor: no run\n```",
        "Type `critiqor runs --loud`.",
        "Type `critiqor lab play`.",
    ],
)
def test_command_that_cannot_be_typed_is_noticed(text: str) -> None:
    [typed] = commands_in(text)
    assert problem_with(typed)


def test_the_pages_name_enough_commands_for_that_to_mean_something() -> None:
    assert sum(len(commands_in(page.read_text())) for page in PAGES) > 200
