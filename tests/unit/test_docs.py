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
from critiqor.diagnosis import FAILURE_TYPES
from critiqor.diagnosis.policy import Policy, parse_policy
from critiqor.model import Coverage, Diagnosis, Event, Finding

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
    commands: dict[str, click.Command | None] = {}
    for verb in VERBS:
        command = critiqor.get_command(click.Context(critiqor), verb)
        deeper = command.commands if isinstance(command, click.Group) else {"": command}
        commands |= {f"{verb} {name}".strip(): each for name, each in deeper.items()}
    silent = [
        verb for verb, command in commands.items() if command and "as_json" not in {p.name for p in command.params}
    ]
    assert silent == ["monitor openclaw"]


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


@pytest.mark.parametrize("struct", [Diagnosis, Finding], ids=["diagnosis", "finding"])
def test_every_field_of_a_diagnosis_is_documented(struct: type[msgspec.Struct]) -> None:
    text = (DOCS / "diagnosis.md").read_text()
    assert [name for name in struct.__struct_fields__ if f"`{name}`" not in text] == []


@pytest.mark.parametrize("kind", FAILURE_TYPES)
def test_every_failure_type_is_documented_with_what_a_user_must_know_of_it(kind: str) -> None:
    sections = (DOCS / "failures.md").read_text().split("\n## ")
    [section] = [section for section in sections if section.startswith(f"`{kind}`\n")]
    for question in ("**Looks at**", "**Thresholds**", "**Blind spots**", "**Measured**"):
        assert question in section
    assert "not externally validated" in section or re.search(r"\d", section.split("**Measured**")[1])


@pytest.mark.parametrize("key", Policy.__struct_fields__)
def test_every_key_of_a_policy_is_documented(key: str) -> None:
    assert f"\n| `{key}` |" in (DOCS / "checking.md").read_text()


def test_only_keys_of_a_policy_are_documented_and_the_example_is_one() -> None:
    text = (DOCS / "checking.md").read_text()
    table = text.split("| key |")[1].split("\n\n")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(Policy.__struct_fields__)
    [example] = re.findall(r"```toml\n(.+?)```", text, re.DOTALL)
    assert parse_policy(example.encode(), "toml", FAILURE_TYPES).min_trust


@pytest.mark.parametrize("setting", sorted(KEYS))
def test_every_setting_is_documented(setting: str) -> None:
    assert f"`{setting}`" in (DOCS / "settings.md").read_text()


def test_every_room_is_in_the_architecture() -> None:
    text = (DOCS / "architecture.md").read_text()
    rooms = [path.name for path in (ROOT / "critiqor").iterdir() if re.fullmatch(r"[a-z]+(\.py)?", path.name)]
    assert [room for room in rooms if room not in text] == []
