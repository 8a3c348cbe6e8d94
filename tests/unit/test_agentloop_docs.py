"""docs/agentloop.md matches the code of the agent loop."""

from __future__ import annotations

import re
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
