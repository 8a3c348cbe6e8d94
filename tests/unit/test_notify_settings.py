"""The table [notify]: what it accepts, who may write what, and where secrets come from."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from critiqor.diagnosis import FAILURE_TYPES
from critiqor.errors import UsageError
from critiqor.notifications.alert import Message
from critiqor.notifications.settings import (
    Audience,
    Channel,
    MissingSecretError,
    Source,
    parse_notify,
    read_secret,
    unknown_types,
)

FILE = Path("/home/ana/.config/critiqor/config.toml")
SECRET_URL = "https://hooks.example.com/services/T000/B000/XXXXSECRET"
OPS = """
min_severity = "high"
quiet_hours = "22:00-07:00"

[channels.ops]
kind = "webhook"
url = { env = "OPS_URL" }
secret = { env = "OPS_SECRET" }

[channels.pager]
kind = "slack"
url = { env = "PAGER_URL" }
min_severity = "critical"
max_per_hour = 5
"""


def parsed(text: str, *, is_users: bool = True) -> list[Channel]:
    return parse_notify(tomllib.loads(text), FILE, is_users=is_users)


def channel(*lines: str) -> str:
    return "\n".join(("[channels.ops]", *lines))


def test_what_stands_in_notify_is_for_all_channels_and_a_channel_can_differ() -> None:
    ops, pager = parsed(OPS, is_users=False)
    assert (ops.name, ops.min_severity, ops.max_per_hour, ops.quiet_hours) == ("ops", "high", 60, "22:00-07:00")
    assert (pager.name, pager.min_severity, pager.max_per_hour) == ("pager", "critical", 5)
    assert ops.texts is False


def test_a_table_without_channels_has_none() -> None:
    assert parsed('min_severity = "high"') == []


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("min_severty = 'high'", "min_severty"),
        ("min_severity = 'severe'", "min_severity"),
        ("quiet_hours = '22-7'", "quiet_hours"),
        ("quiet_hours = '25:00-07:00'", "quiet_hours"),
        ("max_per_hour = 0", "max_per_hour"),
        ("max_per_hour = 'many'", "max_per_hour"),
        ("texts = 1", "texts"),
        ("types = 'tool_loop'", "types"),
        ("channels = 5", "channels must be tables"),
        ("channels.ops = 5", "channels.ops must be a table"),
        ("[channels.'Ops!']\nkind = 'terminal'", "'Ops!'"),
        (channel("kind = 'email'"), "channels.ops: kind"),
        (channel("url = 'https://x.example'"), "channels.ops"),
        (channel("kind = 'webhook'"), "channels.ops: a channel of kind webhook needs url"),
        (channel("kind = 'command'"), "needs command"),
        (channel("kind = 'terminal'", "url = 'https://x.example'"), "has no url"),
        (channel("kind = 'slack'", "url = 'https://x.example'", "secret = 's'"), "has no secret"),
        (channel("kind = 'webhook'", "url = {}"), "url must be a text"),
        (channel("kind = 'webhook'", "url = { env = 'A', file = 'b' }"), "url must be a text"),
        (channel("kind = 'webhook'", "url = { enw = 'A' }"), "enw"),
        (channel("kind = 'webhook'", "url = 5"), "channels.ops: url"),
        (channel("kind = 'terminal'", "colour = 'red'"), "colour"),
        (channel("kind = 'terminal'", "name = 'x'"), "remove the key name"),
        (channel("kind = 'terminal'", "quiet_hours = 'x'"), "channels.ops: quiet_hours"),
    ],
)
def test_a_mistake_is_an_error_with_its_place(text: str, place: str) -> None:
    with pytest.raises(UsageError) as error:
        parsed(text)
    assert error.value.message.startswith("notify in config.toml: ")
    assert place in error.value.message
    assert str(FILE) in str(error.value.fix)


@pytest.mark.parametrize("table", [5, [], "on", True])
def test_something_else_than_a_table_is_an_error(table: Any) -> None:
    with pytest.raises(UsageError, match="it must be a table"):
        parse_notify(table, FILE, is_users=True)


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (("kind = 'command'", "command = ['rm', '-r', '/']"), "must not start programs"),
        (("kind = 'terminal'", "texts = true"), "texts of agents"),
        (("kind = 'webhook'", f"url = '{SECRET_URL}'"), "env"),
        (("kind = 'slack'", "url = { file = '/etc/passwd' }"), "env"),
        (("kind = 'apprise'", "url = 'json://evil.example'"), "env"),
        (("kind = 'webhook'", "url = { env = 'A' }", "secret = { file = '~/.ssh/id_rsa' }"), "secret"),
    ],
)
def test_a_folder_names_neither_programs_nor_addresses_nor_files(lines: tuple[str, ...], reason: str) -> None:
    assert parsed(channel(*lines))
    with pytest.raises(UsageError) as error:
        parsed(channel(*lines), is_users=False)
    assert reason in error.value.message
    assert SECRET_URL not in str(error.value)


def test_neither_errors_nor_descriptions_contain_an_address_or_a_key() -> None:
    with pytest.raises(UsageError) as error:
        parsed(channel("kind = 'webhook'", f"url = '{SECRET_URL}'", "secret = 'hidden-key'", "max_per_hour = 'x'"))
    [made] = parsed(channel("kind = 'webhook'", f"url = '{SECRET_URL}'", "secret = 'hidden-key'"))
    for text in (str(error.value), repr(made), str(made)):
        assert "XXXXSECRET" not in text and "hidden-key" not in text


def test_a_secret_comes_from_the_settings_a_variable_or_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPS_URL", f" {SECRET_URL}\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "critiqor").mkdir()
    (tmp_path / "critiqor" / "ops.url").write_text(f"{SECRET_URL}\n")
    for source in (
        SECRET_URL,
        Source(env="OPS_URL"),
        Source(file="ops.url"),
        Source(file=str(tmp_path / "critiqor/ops.url")),
    ):
        assert read_secret(source, "url") == SECRET_URL


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (Source(env="NOT_SET_AT_ALL"), "the variable NOT_SET_AT_ALL, which holds the url, is not set"),
        (Source(env="BLANK"), "is not set"),
        (Source(file="missing"), "No such file"),
        (Source(file="/"), "regular file"),
        (Source(file="binary"), "not UTF-8"),
        (Source(file="empty"), "is empty"),
        (None, "there is no url"),
    ],
)
def test_a_secret_that_cannot_be_read_is_named_by_its_place(
    source: Source | None, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BLANK", " ")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "critiqor").mkdir()
    (tmp_path / "critiqor" / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "critiqor" / "empty").write_bytes(b"\n")
    with pytest.raises(MissingSecretError, match=expected):
        read_secret(source, "url")


def test_types_that_do_not_exist_are_named() -> None:
    [made] = parsed(channel("kind = 'terminal'", "types = ['tool_loop', 'limit_exceeded', 'tool_lop']"))
    [sentence] = unknown_types([made], {"tool_loop"})
    assert "'tool_lop'" in sentence and "ops" in sentence


def test_every_key_is_documented_and_the_examples_are_valid() -> None:
    page = (Path(__file__).parent.parent.parent / "docs" / "notifications.md").read_text()
    documented = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    common = Audience.__struct_fields__
    own = [key for key in Channel.__struct_fields__ if key not in common and key != "name"]
    assert documented == [*own, *common]
    examples = [tomllib.loads(text)["notify"] for text in re.findall(r"```toml\n(.+?)```", page, re.DOTALL)]
    named = [each.name for table in examples for each in parse_notify(table, FILE, is_users=True)]
    assert named == ["ops", "team", "team", "guild", "phone"]
    [message] = re.findall(r"```json\n(.+?)```", page, re.DOTALL)
    jsonschema.validate(json.loads(message), msgspec.json.schema(Message))
    [alert] = msgspec.json.decode(message, type=Message).alerts
    assert alert.finding.meaning == FAILURE_TYPES[alert.finding.type]
