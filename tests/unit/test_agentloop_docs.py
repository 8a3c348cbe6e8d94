"""docs/agentloop.md matches the code of the agent loop."""

from __future__ import annotations

import re
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path

import msgspec
import pytest

from critiqor.agentloop import settings

ROOT = Path(__file__).parent.parent.parent
TEXT = (ROOT / "docs" / "agentloop.md").read_text()
STRUCTS = [
    settings.AgentDefaults,
    settings.CompactionSettings,
    settings.DiagnosticsSettings,
    settings.ExternalSettings,
    settings.HookScriptSettings,
    settings.FileChannel,
    settings.InternalHookSettings,
    settings.ModelEntry,
    settings.PluginHookSettings,
    settings.Provider,
    settings.ProxySettings,
    settings.QueueSettings,
    settings.RetrySettings,
    settings.SandboxSettings,
    settings.SkillSettings,
    settings.TlsSettings,
    settings.WebhookChannel,
    settings.WriteLockSettings,
]
UNDOCUMENTED = {"name"}
"""The display name of a model."""


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda struct: struct.__name__)
def test_every_key_of_the_configuration_is_documented(struct: type[msgspec.Struct]) -> None:
    keys = set(struct.__struct_encode_fields__) - UNDOCUMENTED
    assert sorted(key for key in keys if not re.search(rf"\b{key}\b", TEXT)) == []


def test_the_table_of_files_matches_the_package() -> None:
    folder = ROOT / "critiqor" / "agentloop"
    table = TEXT.partition("## Parts of the loop")[2].partition("## Configuration")[0]
    named = set(re.findall(r"`([\w*]+\.py)`", table))
    files = {path.name for path in folder.rglob("*.py") if path.parent.name != "tools"} - {"__init__.py"}
    assert [name for name in named if not any(fnmatch(file, name) for file in files)] == []
    assert sorted(file for file in files if not any(fnmatch(file, name) for name in named)) == []


def statements() -> list[list[str]]:
    """Return the rows of the table of statements: statement, tests, difference."""
    table = TEXT.partition("## What OpenClaw documents of its agent loop")[2].partition("\n## ")[0]
    lines = [line for line in table.splitlines() if line.startswith("| ")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if not line.startswith("| **")]


def test_every_statement_has_a_test_that_exists_exactly_once() -> None:
    definitions = Counter(
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE)
    )
    rows = statements()
    assert len(rows) > 130
    named = {statement: re.findall(r"`(\w+)`", tests) for statement, tests, _ in rows}
    assert [statement for statement, tests in named.items() if not tests] == []
    assert {name: definitions[name] for tests in named.values() for name in tests if definitions[name] != 1} == {}


def test_no_statement_occurs_twice() -> None:
    assert [text for text, count in Counter(row[0] for row in statements()).items() if count > 1] == []
