"""Each kind of channel: what it gets, how it fails, and that no secret gets out."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from alerting import (
    SECONDS,
    alert,
    closed_address,
    notifier,
    one_attempt,
    webhook,
)
from collectors import answering, collector
from support import script

from critiqor.notifications.notifier import Notifier
from critiqor.notifications.settings import Channel, Source
from critiqor.session import paths_for


def test_each_kind_of_channel_gets_the_form_that_it_expects(tmp_path: Path) -> None:
    written = tmp_path / "written"
    lines: list[str] = []
    program = script(tmp_path / "program", f'#!/bin/sh\ncat > "{written}"\n')
    with collector() as slack, collector(answering(204, b"")) as discord, collector() as apprise:
        channels = [
            Channel(name="chat", kind="slack", url=slack.url),
            Channel(name="guild", kind="discord", url=discord.url),
            Channel(name="program", kind="command", command=(str(program),)),
            Channel(name="screen", kind="terminal"),
            Channel(name="others", kind="apprise", url=apprise.url.replace("http:", "json:")),
        ]
        sender = Notifier(channels, paths_for(tmp_path / "runs"), write_line=lines.append)
        sender.announce([alert()])
        reports = sender.deliver(SECONDS)
    assert [(report.sent, report.reason) for report in reports] == [(1, None)] * 5
    assert json.loads(slack.bodies[0])["text"].startswith("*high tool_loop* (`run_001`, ")
    assert json.loads(discord.bodies[0])["content"].startswith("**high tool_loop** (`run_001`, ")
    assert json.loads(written.read_bytes())["idempotency_key"] == alert().idempotency_key
    assert lines[0].startswith("high tool_loop (run_001")
    assert "high tool_loop (run_001" in json.loads(apprise.bodies[0])["message"]


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ("exit 7", "its command ended with exit code 7"),
        ("sleep 60 & sleep 60", " within 1 seconds"),
    ],
)
def test_a_command_that_fails_or_hangs_leaves_the_alert_in_the_outbox(tmp_path: Path, lines: str, reason: str) -> None:
    program = script(tmp_path / "program", f"#!/bin/sh\n{lines}\n")
    sender = notifier(tmp_path, Channel(name="ops", kind="command", command=(str(program),)))
    sender.announce([alert()])
    [report] = one_attempt(sender).deliver(1.0 if "within" in reason else SECONDS)
    assert (report.sent, report.waiting) == (0, 1)
    assert reason in str(report.reason)


@pytest.mark.parametrize("command", [("/no/such/program",), ("",), ("a\x00b",)])
def test_a_command_that_cannot_be_started_leaves_the_alert_in_the_outbox(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    sender = notifier(tmp_path, Channel(name="ops", kind="command", command=command))
    sender.announce([alert()])
    [report] = one_attempt(sender).deliver(SECONDS)
    assert (report.waiting, str(report.reason)[:30]) == (1, "its command cannot be started:")


def test_a_process_without_a_terminal_leaves_such_alerts_to_the_next_one(tmp_path: Path) -> None:
    screen, lines = Channel(name="screen", kind="terminal"), list[str]()
    sender = notifier(tmp_path, screen)
    sender.announce([alert()])
    [report] = sender.deliver(SECONDS)
    assert (report.sent, report.waiting, report.is_problem) == (0, 1, False)
    Notifier([screen], paths_for(tmp_path), write_line=lines.append).deliver(SECONDS)
    assert len(lines) == 1


def test_what_only_the_settings_can_repair_is_tried_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPS_URL", raising=False)
    sender = notifier(tmp_path, Channel(name="ops", kind="slack", url=Source(env="OPS_URL")))
    sender.announce([alert()])
    [report] = sender.deliver(SECONDS)
    assert (report.waiting, report.reason) == (1, "the variable OPS_URL, which holds the url, is not set")
    assert sender.outbox.channel("ops").state().failures == 1


@pytest.mark.parametrize("kind", ["webhook", "apprise"])
@pytest.mark.parametrize("failure", ["down", "unknown host", "no address", "status"])
def test_no_secret_gets_into_files_reports_or_logs(
    tmp_path: Path, kind: str, failure: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("OPS_KEY", "top-secret-key")
    with collector(answering(500)) as receiver:
        address = {
            "down": f"{closed_address()}/path-ZZMARK",
            "unknown host": "http://ZZMARK.invalid/path-ZZMARK",
            "no address": "nonsense ZZMARK",
            "status": f"{receiver.url}/path-ZZMARK",
        }[failure]
        if kind == "apprise":
            address = address.replace("http:", "json:")
            channel = Channel(name="ops", kind="apprise", url=address)
        else:
            channel = webhook(address, secret=Source(env="OPS_KEY"))
        sender = notifier(tmp_path, channel)
        sender.announce([alert()])
        [report] = one_attempt(sender).deliver(SECONDS)
        [trial] = sender.try_channels([channel], SECONDS)
    assert (report.waiting, report.is_problem, trial.is_problem) == (1, True, True)
    written = [path.read_text() for path in tmp_path.rglob("*") if path.is_file()]
    logged = [record.getMessage() for record in caplog.records]
    for text in (*written, *logged, str(report), str(trial)):
        assert "zzmark" not in text.lower() and "top-secret-key" not in text
