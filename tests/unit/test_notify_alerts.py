"""Alerts: what they contain, how they are identified, and which channel gets which."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import msgspec
import pytest
from alerting import Clock, alert, finding, head, webhook
from hostile import TEXTS
from hypothesis import given
from hypothesis import strategies as st

from critiqor.diagnosis import FAILURE_TYPES
from critiqor.model import Scope, Severity
from critiqor.notifications.alert import (
    Alert,
    AlertKind,
    alert_message,
    alert_of,
    limit_alert,
    summary_message,
    trial_message,
    without_texts,
)
from critiqor.notifications.filters import is_wanted, quiet_until
from critiqor.notifications.rendering import MAX_CHAT, discord_body, slack_body, text_line

QUOTED = "quarterly numbers"


def schema() -> dict[str, Any]:
    return msgspec.json.schema(type(trial_message(0)))


def test_an_alert_names_run_session_finding_and_command_and_quotes_nothing() -> None:
    [bare] = without_texts([alert()])
    document = msgspec.to_builtins(alert_message(bare, 0))
    [sent] = document["alerts"]
    assert (sent["run_id"], sent["session_key"], sent["agent_id"]) == ("run_001", "agent:main:main", "release-bot")
    assert sent["finding"] == {
        "id": "finding_001",
        "type": "tool_loop",
        "severity": "high",
        "meaning": FAILURE_TYPES["tool_loop"],
    }
    assert sent["command"] == "critiqor explain run_001 finding_001"
    assert QUOTED not in json.dumps(document)


def test_texts_are_there_when_they_are_asked_for() -> None:
    message = alert_message(alert(), 0)
    for written in (msgspec.json.encode(message).decode(), text_line(message), str(slack_body(message))):
        assert QUOTED in written


def test_the_key_is_that_of_the_finding_whatever_its_number_severity_and_words() -> None:
    first = alert_of(finding(1), head())
    renumbered = finding(1, id="finding_007", title="other words", severity="critical", agent_run_id="r9")
    assert alert_of(renumbered, head()).idempotency_key == first.idempotency_key


@pytest.mark.parametrize(
    "other",
    [
        alert(2),
        alert(session_key="agent:main:other"),
        alert(session_key=None),
        alert(session_key=None, agent_run_id=None),
        alert(kind="updated"),
        alert(kind="withdrawn"),
        alert_of(finding(), head("run_002")),
        alert_of(finding(), head(created_at="2026-11-17T09:00:00.001Z")),
    ],
)
def test_the_key_of_another_finding_session_run_or_kind_is_another(other: Alert) -> None:
    assert other.idempotency_key != alert().idempotency_key


def test_a_type_of_an_extension_is_named_as_such() -> None:
    assert alert(type="their_type").finding.meaning == "found by an extension"


def test_an_exceeded_limit_is_announced_once_for_each_agent_run() -> None:
    def exceeded(name: str, agent_run: str) -> Alert:
        place = Scope(session_key="agent:main:main", agent_run_id=agent_run)
        return limit_alert(name, "9 repeats of `exec`, at most 8", place, head(), command="critiqor watch run_001")

    alerts = [exceeded("repeats", "r1"), exceeded("repeats", "r2"), exceeded("tokens", "r1"), exceeded("repeats", "r1")]
    assert len({each.idempotency_key for each in alerts}) == 3
    line = text_line(alert_message(without_texts(alerts)[0], 0))
    assert line.startswith("high limit_exceeded (run_001, session agent:main:main, ")
    assert line.endswith("a limit of the policy was exceeded\n  → critiqor watch run_001")


def test_a_finding_is_updated_once_to_each_severity() -> None:
    updates = [alert(kind="updated", severity=severity) for severity in ("high", "critical", "high")]
    assert len({each.idempotency_key for each in updates}) == 2


def test_findings_without_a_session_differ_from_those_of_the_recording() -> None:
    without_session = alert(session_key=None, agent_run_id="r1")
    of_recording = alert(session_key=None, agent_run_id=None)
    assert without_session.idempotency_key != of_recording.idempotency_key


@given(st.text(st.characters(exclude_categories=()), max_size=40), st.text(max_size=5000))
def test_any_text_becomes_a_message_that_every_kind_of_channel_can_carry(name: str, text: str) -> None:
    made = alert_of(finding(session_key=name, cause=name, title=text, explanation=text), head(agent_id=text))
    for message in (alert_message(made, 0), summary_message([made, made], 0)):
        jsonschema.validate(json.loads(msgspec.json.encode(message)), schema())
        assert text_line(message).replace("\n", "").isprintable()
        for body in (slack_body(message), discord_body(message)):
            msgspec.json.encode(body)


@pytest.mark.parametrize("name", TEXTS)
def test_hostile_texts_stay_short_and_harmless(name: str) -> None:
    text = TEXTS[name]
    made = alert_of(
        finding(session_key=text, title=text, explanation=text, recommendation=text), head(agent_id=text[:500])
    )
    message = alert_message(made, 0)
    assert len(msgspec.json.encode(message)) < 20_000
    assert len(text_line(message)) < 3_000
    assert text_line(message).replace("\n", "").isprintable()
    discord = discord_body(message)
    assert len(discord["content"]) <= MAX_CHAT
    assert discord["allowed_mentions"] == {"parse": []}
    slack = slack_body(message)["text"]
    assert "<" not in slack and ">" not in slack
    for chat in (slack, discord["content"]):
        assert chat.endswith("`critiqor explain run_001 finding_001`")
        assert chat.isprintable() or chat.replace("\n", "").isprintable()


def test_mentions_and_markup_in_names_stay_inside_code() -> None:
    named = alert_of(finding(session_key="`<!channel> @everyone **x**"), head())
    text = slack_body(alert_message(named, 0))["text"]
    assert "`session '&lt;!channel&gt; @everyone **x**`" in text


def test_the_text_of_each_kind_of_message() -> None:
    new, withdrawn, test = alert_message(alert(), 0), alert_message(alert(kind="withdrawn"), 0), trial_message(0)
    assert text_line(new).startswith("high tool_loop (run_001, session agent:main:main, agent release-bot, host ")
    assert text_line(new).endswith("\n  → critiqor explain run_001 finding_001")
    assert text_line(withdrawn).startswith("withdrawn: high tool_loop (run_001")
    assert text_line(test).startswith("Test of a channel for alerts (host ")
    summary = summary_message([alert(1), alert(2, severity="critical"), alert(3)], 0)
    assert text_line(summary).startswith("3 further alerts: 1 critical, 2 high (run_001, host ")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, True),
        ({"min_severity": "critical"}, False),
        ({"min_severity": "high"}, True),
        ({"types": ("tool_loop", "timeout")}, True),
        ({"types": ("timeout",)}, False),
        ({"agents": ("release-*",)}, True),
        ({"agents": ("Release-*",)}, False),
        ({"sessions": ("agent:main:*",)}, True),
        ({"sessions": ("agent:other:*", "telegram:*")}, False),
    ],
)
def test_filters_by_severity_type_agent_and_session(fields: dict[str, Any], expected: bool) -> None:
    assert is_wanted(alert(), webhook("http://127.0.0.1:1", **fields)) is expected


@pytest.mark.parametrize(
    ("kind", "was_announced", "severity", "expected"),
    [
        ("updated", True, "low", True),
        ("updated", False, "low", False),
        ("updated", False, "high", True),
        ("withdrawn", True, "low", True),
        ("withdrawn", False, "critical", False),
    ],
)
def test_who_was_sent_a_finding_is_sent_what_becomes_of_it(
    kind: AlertKind, was_announced: bool, severity: Severity, expected: bool
) -> None:
    channel = webhook("http://127.0.0.1:1", min_severity="high")
    assert is_wanted(alert(kind=kind, severity=severity), channel, was_announced=was_announced) is expected
    assert alert(kind=kind).finding_key == alert().idempotency_key


def test_a_failure_of_the_recording_concerns_every_session() -> None:
    of_recording = alert(session_key=None, agent_run_id=None)
    assert is_wanted(of_recording, webhook("http://127.0.0.1:1", sessions=("agent:main:*",)))


@pytest.mark.parametrize(
    ("hours", "hour", "expected"),
    [
        ("22:00-07:00", 23, "07:00"),
        ("22:00-07:00", 6, "07:00"),
        ("22:00-07:00", 7, None),
        ("22:00-07:00", 12, None),
        ("12:00-13:30", 12, "13:30"),
        ("12:00-13:30", 11, None),
        ("12:00-12:00", 12, None),
        (None, 12, None),
    ],
)
def test_quiet_hours_are_local_time_and_may_contain_midnight(
    hours: str | None, hour: int, expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    import time

    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        clock = Clock()
        clock.now_ms += round((hour - 12 - 5.5) * 3_600_000)
        assert quiet_until(webhook("http://127.0.0.1:1", quiet_hours=hours), clock()) == expected
    finally:
        monkeypatch.undo()
        time.tzset()
