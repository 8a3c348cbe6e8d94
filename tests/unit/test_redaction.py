from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from critiqor.storage.redaction import RULES_PATH, Redactor, may_hold_secret

RULES = json.loads(RULES_PATH.read_text("utf-8"))
SECRETS = {
    "private_key": "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----",
    "anthropic_key": "sk-ant-" + "a1B2" * 6,
    "openai_key": "sk-" + "a1B2" * 6,
    "github_token": "ghp_" + "a1B2" * 9,
    "gitlab_token": "glpat-" + "a1B2" * 5,
    "slack_token": "xoxb-1234567890-abcdef",
    "aws_access_key": "AKIA" + "A1B2" * 4,
    "google_key": "AIza" + "a1B2c" * 7,
    "npm_token": "npm_" + "a1B2" * 9,
    "stripe_key": "sk_live_" + "a1B2" * 5,
    "telegram_token": "123456789:AA" + "a1B" * 11,
    "jwt": "eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl",
    "bearer": "Bearer abcdef0123456789",
    "basic_auth": "Authorization: Basic dXNlcjpwYXNz",
    "url_password": "https://user:hunter2@host/path",
    "assignment": "API_KEY=hunter2hunter2",
}


def redactor() -> Redactor:
    return Redactor(b"key of one run")


def test_every_rule_has_an_example_here() -> None:
    assert SECRETS.keys() == {rule["kind"] for rule in RULES["patterns"]}


@pytest.mark.parametrize(("kind", "text"), SECRETS.items())
def test_secret_of_every_kind_is_replaced_and_seen_by_the_gate(kind: str, text: str) -> None:
    rules = redactor()
    safe = rules.value({"text": f"before {text} after", "list": [text]})
    assert f"[redacted:{kind}:" in safe["text"]
    assert f"[redacted:{kind}:" in safe["list"][0]
    assert rules.counts[kind] == 2
    assert may_hold_secret(msgspec.json.encode({"text": text}))
    assert redactor().value(safe) == safe


def test_equal_secrets_have_equal_tags_within_a_run_only() -> None:
    secret = SECRETS["openai_key"]
    one, other = redactor(), Redactor(b"key of another run")
    assert one.text(f"{secret} {secret}").split()[0] == one.text(f"x={secret}").removeprefix("x=")
    assert one.text(secret) != one.text(secret.upper().replace("SK-", "sk-"))
    assert one.text(secret) != other.text(secret)


def test_surroundings_of_a_secret_stay() -> None:
    assert redactor().text("https://user:hunter2@host/path").startswith("https://user:[redacted:url_password:")
    assert redactor().text("password: 'hunter2hunter2', next").endswith("', next")
    assert redactor().text("the key is under the mat") == "the key is under the mat"


@pytest.mark.parametrize(
    "name", ["password", "PassWord", "PASS_WORD", "password2", "x-api-key", "Set-Cookie", "api key"]
)
@pytest.mark.parametrize("value", ["hunter2", ["hunter2", "hunter3"]])
def test_named_field_is_replaced_whatever_its_spelling(name: str, value: Any) -> None:
    safe = redactor().value({name: value})
    assert "hunter" not in json.dumps(safe)
    assert may_hold_secret(json.dumps({name: value}).encode())


@pytest.mark.parametrize("member", [{"password": "abc"}, {"token": None}, {"secret": 5}, {"passwords": "hunter"}])
def test_short_or_unnamed_field_stays(member: dict[str, Any]) -> None:
    assert redactor().value(member) == member


def test_value_behind_an_option_of_a_command_line_is_replaced() -> None:
    words = ["openclaw", "--token", "hunter2", "--api-key=hunter2", "--password", "abc", "run", "--token"]
    safe = redactor().command(words)
    assert [word for word in safe if word in words] == [
        "openclaw",
        "--token",
        "--api-key=hunter2",
        "--password",
        "abc",
        "run",
        "--token",
    ]
    assert safe[2].startswith("[redacted:field:")


@pytest.mark.parametrize(
    "line",
    [
        rb'{"text":"\u0070assword=hunter2hunter2"}',
        rb'{"\u0070assword":"hunter2"}',
        rb'{"text":"https:\/\/user:hunter2@host"}',
        b'{"text":"password:\\u001chunter2hunter2"}',
        b'{"text":"password:\xe2\x80\x83hunter2hunter2"}',
    ],
)
def test_unusual_escapes_are_looked_at_closely(line: bytes) -> None:
    record = json.loads(line)
    assert redactor().value(record) != record
    assert may_hold_secret(line)


def test_start_of_the_look_leaves_out_what_comes_before() -> None:
    line = b'{"session_key":"agent:main","token":"hunter2","error":null,"payload":{}}'
    assert may_hold_secret(line)
    assert not may_hold_secret(line, line.index(b'"error"'))


@pytest.mark.parametrize("kind", SECRETS)
def test_mark_is_not_taken_for_a_secret_whatever_its_kind_is_called(kind: str) -> None:
    once = redactor().text(SECRETS[kind])
    assert once.count("[redacted:") == 1
    assert redactor().text(once) == once


WORDS = [
    *("password", "Password", "PASSWD", "secret", "TOKEN", "api_key", "apiKey", "ACCESSKEY", "Authorization"),
    *SECRETS.values(),
    *("=", ":", " = ", "://", "@", '"', "'", "\\", "hunter2hunter2", "Basic ", "bearer  ", "abc", "é", "1", "-", "_"),
    *("\n", "\t", "\v", "\f", "\x1c", "\x85", "\u2003", "\ufeff"),
]
TEXT = st.lists(st.sampled_from(WORDS), max_size=8).map("".join)


def spellings(name: str) -> st.SearchStrategy[str]:
    """A name with this and that between its letters."""
    gap = st.sampled_from(["", "", "_", "-", " ", "2", "É", '"', "\n"])
    return st.tuples(*[gap.map(letter.__add__) for letter in name]).map("".join)


NAMES = st.sampled_from(RULES["fields"]["names"]).flatmap(spellings)
VALUES = st.recursive(
    TEXT | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES | TEXT, inner, max_size=2),
    max_leaves=4,
)


@settings(max_examples=400)
@given(VALUES, st.booleans())
def test_gate_is_never_stricter_than_the_rules(value: Any, is_ascii: bool) -> None:
    line = json.dumps(value, ensure_ascii=is_ascii, separators=(",", ":")).encode()
    if redactor().value(value) != value:
        assert may_hold_secret(line)
        assert may_hold_secret(msgspec.json.encode(value))
