"""The documents are true to the code."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import click
import msgspec
import pytest

from critiqor.cli.group import VERBS, critiqor
from critiqor.cli.settings import KEYS
from critiqor.model import Coverage, Event

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"


def test_the_command_reference_is_the_help_text_of_today() -> None:
    spec = importlib.util.spec_from_file_location("commands", DOCS / "commands.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (DOCS / "commands.md").read_text() == module.reference(), "python docs/commands.py > docs/commands.md"


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_in_the_readme(verb: str) -> None:
    assert f"critiqor {verb}" in (ROOT / "README.md").read_text()


def test_every_verb_but_monitor_answers_as_json_as_the_readme_says() -> None:
    commands = {verb: critiqor.get_command(click.Context(critiqor), verb) for verb in VERBS}
    silent = [
        verb for verb, command in commands.items() if command and "as_json" not in {p.name for p in command.params}
    ]
    assert silent == ["monitor"]


def test_documented_names_are_those_that_the_recorder_subscribes_to() -> None:
    plugin = (ROOT / "critiqor" / "clawhub" / "critiqor-openclaw" / "index.js").read_text()
    listed = re.search(r"DOCUMENTED_EVENTS = Object\.freeze\(\{(.+?)\}\)", plugin, re.DOTALL)
    defined = re.search(r"The documented names are (.+?)\. ", " ".join((DOCS / "recording.md").read_text().split()))
    assert listed and defined
    assert re.findall(r"`(\w+)`", defined[1]) == re.findall(r'"(\w+)"', listed[1])


@pytest.mark.parametrize("struct", [Event, Coverage], ids=["event", "coverage"])
def test_every_field_of_the_evidence_is_documented(struct: type[msgspec.Struct]) -> None:
    text = (DOCS / "evidence.md").read_text()
    assert [name for name in struct.__struct_fields__ if f"`{name}`" not in text] == []


@pytest.mark.parametrize("setting", sorted(KEYS))
def test_every_setting_is_documented(setting: str) -> None:
    assert f"`{setting}`" in (DOCS / "settings.md").read_text()


def test_every_room_is_in_the_architecture() -> None:
    text = (DOCS / "architecture.md").read_text()
    rooms = [path.name for path in (ROOT / "critiqor").iterdir() if re.fullmatch(r"[a-z]+(\.py)?", path.name)]
    assert [room for room in rooms if room not in text] == []
