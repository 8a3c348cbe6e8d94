"""Alerts on the command line: `critiqor finalize`, `critiqor notify`, and any verb after a crash."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from alerting import SECRET, alert_keys_received, keys_received
from collectors import Collector, answering, collector
from support import Cli, Fields, Runs, attached, recorded, run_critiqor

from critiqor.cli.settings import read_channels
from critiqor.errors import ExitCode
from critiqor.notifications.finalized import announce_expected
from critiqor.notifications.notifier import Notifier

DOCS = Path(__file__).parent.parent.parent / "docs"
FAILED: Fields = {"status": "error", "error": "HTTP 401 for the quarterly numbers"}
RECORDS = (
    attached(),
    recorded(2),
    recorded(3, "after_provider_response", **FAILED),
    recorded(4, "agent_end", **FAILED),
)
Configure = Callable[..., None]


@pytest.fixture
def configure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Configure:
    """Write the user's file of settings, with one webhook unless another table is given."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "config" / "critiqor").mkdir(parents=True)

    def write(url: str, *lines: str) -> None:
        monkeypatch.setenv("OPS_URL", url)
        monkeypatch.setenv("OPS_SECRET", SECRET)
        table = (
            '[notify.channels.ops]\nkind = "webhook"',
            'url = { env = "OPS_URL" }',
            'secret = { env = "OPS_SECRET" }',
        )
        (tmp_path / "config" / "critiqor" / "config.toml").write_text("\n".join((*table, *lines)) + "\n")

    return write


def start(runs: Runs) -> str:
    run_id = runs.start()
    runs.write(run_id, *RECORDS)
    return run_id


def only_alert(receiver: Collector) -> dict[str, Any]:
    [body] = receiver.bodies
    [sent] = json.loads(body)["alerts"]
    assert isinstance(sent, dict)
    return sent


def test_finalize_sends_each_finding_once_without_texts(cli: Cli, runs: Runs, configure: Configure) -> None:
    start(runs)
    with collector() as receiver:
        configure(receiver.url)
        assert cli("finalize", "--no-dashboard").code == ExitCode.OK
        assert cli("finalize", "run_001", "--no-dashboard").code == ExitCode.OK
        assert cli("show", "run_001").code == ExitCode.OK
    sent = only_alert(receiver)
    assert (sent["run_id"], sent["finding"]["type"], sent["session_key"]) == (
        "run_001",
        "provider_failure",
        "agent:main:main",
    )
    assert b"quarterly" not in receiver.bodies[0]
    assert cli(*sent["command"].split()[1:]).code == ExitCode.OK


def test_a_message_keeps_to_the_schema_that_is_shipped(cli: Cli, runs: Runs, configure: Configure) -> None:
    start(runs)
    schema = json.loads((DOCS.parent / "critiqor/model/schemas/critiqor.alert.v1.json").read_text())
    with collector() as receiver:
        configure(receiver.url, "texts = true")
        cli("finalize", "--no-dashboard")
        cli("notify", "test")
    assert len(receiver.bodies) == 2
    for body in receiver.bodies:
        jsonschema.validate(json.loads(body), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**json.loads(receiver.bodies[0]), "alerts": [{}]}, schema)


def test_the_documented_check_of_a_signature_accepts_requests_and_refuses_changed_ones(
    cli: Cli, configure: Configure
) -> None:
    page = (DOCS / "notifications.md").read_text()
    [code] = re.findall(r"```python\n(.+?)```", page, re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    is_genuine = names["is_genuine"]
    with collector() as receiver:
        configure(receiver.url)
        assert cli("notify", "test").code == ExitCode.OK
    [(_, headers, body)] = receiver.requests
    assert is_genuine(SECRET, headers, body)
    assert not is_genuine(SECRET, headers, body + b" ")
    assert not is_genuine(SECRET + "QUJD", headers, body)
    assert not is_genuine(SECRET, {**headers, "webhook-timestamp": "1700000000"}, body)


def test_the_command_of_an_alert_names_the_runs_folder_that_was_typed(
    cli: Cli, tmp_path: Path, configure: Configure
) -> None:
    runs = Runs(tmp_path / "else where")
    start(runs)
    with collector() as receiver:
        configure(receiver.url)
        cli("finalize", "--no-dashboard", "--runs-dir", runs.folder)
    assert only_alert(receiver)["command"].endswith(f"--runs-dir '{runs.folder}'")


def test_a_receiver_that_fails_breaks_no_finalize_and_flush_delivers(
    cli: Cli, runs: Runs, configure: Configure
) -> None:
    start(runs)
    with collector(answering(500, b"", **{"Retry-After": "3600"})) as broken:
        configure(broken.url)
        answer = cli("finalize", "--no-dashboard")
    assert answer.code == ExitCode.OK
    assert "1 alert for channel ops is waiting: it answered 500\n  → critiqor notify flush" in answer.err
    with collector() as receiver:
        configure(receiver.url)
        cli("runs")
        assert receiver.requests == []  # it asked for an hour
        cli("notify", "flush")
    assert keys_received(broken) == keys_received(receiver)


def test_flush_reports_what_was_sent_and_what_waits(cli: Cli, runs: Runs, configure: Configure) -> None:
    start(runs)
    configure("", "")
    cli("finalize", "--no-dashboard")
    answer = cli("notify", "flush")
    assert answer.code == ExitCode.ERROR
    assert "the variable OPS_URL, which holds the url, is not set" in answer.out
    with collector() as receiver:
        configure(receiver.url)
        answer = cli("notify", "flush")
        assert (answer.code, answer.out) == (ExitCode.OK, "ops: 1 message sent\n")
        [report] = cli("notify", "flush", "--json").data
    assert (report["channel"], report["sent"], report["waiting"]) == ("ops", 0, 0)


def test_flush_names_channels_that_are_no_longer_configured(cli: Cli, runs: Runs, configure: Configure) -> None:
    start(runs)
    configure("")
    cli("finalize", "--no-dashboard")
    with collector() as receiver:
        configure(receiver.url)
        user = Path.cwd() / "config" / "critiqor" / "config.toml"
        user.write_text(user.read_text().replace("channels.ops", "channels.other"))
        answer = cli("notify", "flush")
    assert answer.code == ExitCode.ERROR
    assert "1 alert for channel ops is waiting: it is not in the settings" in answer.out


def test_a_finalize_that_was_killed_before_it_announced_is_made_up_for(
    cli: Cli, runs: Runs, configure: Configure
) -> None:
    run_id = start(runs)
    with collector() as receiver:
        configure(receiver.url)
        Notifier(read_channels(), runs.paths).outbox.expect(run_id)
        cli("runs")  # it is not sealed yet
        assert receiver.requests == []
        runs.finalize(run_id)
        cli("runs")
        assert only_alert(receiver)["run_id"] == run_id
        cli("runs")
    assert len(receiver.requests) == 1


@pytest.mark.parametrize("name", ["run_009", "nothing valid", "run_001"])
def test_expected_runs_that_are_gone_aborted_or_nonsense_are_forgotten(
    cli: Cli, runs: Runs, configure: Configure, name: str
) -> None:
    start(runs)
    cli("abort")
    configure("http://127.0.0.1:1")
    notifier = Notifier(read_channels(), runs.paths)
    notifier.outbox.expect(name)
    announce_expected(notifier)
    assert notifier.outbox.expected() == []


def test_test_sends_to_the_given_channels_whatever_their_filters(cli: Cli, runs: Runs, configure: Configure) -> None:
    with collector() as receiver:
        more = '[notify.channels.screen]\nkind = "terminal"\nmin_severity = "critical"\nquiet_hours = "00:00-23:59"'
        configure(receiver.url, more)
        answer = cli("notify", "test", "screen")
        assert (answer.code, answer.out) == (ExitCode.OK, "screen: sent\n")
        assert "critiqor: Test of a channel for alerts" in answer.err
        assert receiver.requests == []
        answer = cli("notify", "test")
        assert (answer.code, answer.out) == (ExitCode.OK, "ops: sent\nscreen: sent\n")
    assert json.loads(receiver.bodies[0])["kind"] == "test"
    assert not runs.paths.notify_folder.exists()


def test_test_fails_if_a_channel_does(cli: Cli, configure: Configure) -> None:
    with collector(answering(403)) as receiver:
        configure(receiver.url)
        answer = cli("notify", "test")
        assert (answer.code, answer.out) == (ExitCode.ERROR, "ops: failed: it answered 403\n")
        assert cli("notify", "test", "--json").data[0]["is_problem"] is True


def test_test_names_channels_and_types_that_do_not_exist(cli: Cli, configure: Configure) -> None:
    configure("http://127.0.0.1:1")
    answer = cli("notify", "test", "slck")
    assert answer.code == ExitCode.USAGE
    assert "there is no channel 'slck'" in answer.err and "use one of ops" in answer.err
    configure("http://127.0.0.1:1", "types = ['tool_lop']")
    answer = cli("notify", "test")
    assert answer.code == ExitCode.USAGE
    assert "there is no failure type 'tool_lop', which the channel ops names" in answer.err


@pytest.mark.parametrize("verb", ["test", "flush"])
def test_without_a_channel_the_settings_are_named(cli: Cli, verb: str) -> None:
    answer = cli("notify", verb)
    assert answer.code == ExitCode.USAGE
    assert "no channel for alerts is configured" in answer.err and "[notify.channels.NAME]" in answer.err


def test_a_type_that_does_not_exist_is_a_warning_of_finalize(cli: Cli, runs: Runs, configure: Configure) -> None:
    start(runs)
    configure("http://127.0.0.1:1", "types = ['tool_lop']")
    answer = cli("finalize", "--no-dashboard")
    assert answer.code == ExitCode.OK
    assert "there is no failure type 'tool_lop'" in answer.err


def test_a_folder_can_add_a_channel_and_cannot_replace_one_of_the_user(
    cli: Cli, tmp_path: Path, configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel = '[notify.channels.{}]\nkind = "slack"\nurl = {{ env = "TEAM_URL" }}\n'
    (tmp_path / "critiqor.toml").write_text(channel.format("team") + channel.format("ops"))
    (tmp_path / "policy.toml").write_text("min_trust = 50\n" + channel.format("gate"))
    (tmp_path / "policy.json").write_text('{"min_trust": 50, "notify": {"channels": {"json": {"kind": "terminal"}}}}')
    with collector() as receiver, collector() as team:
        configure(receiver.url)
        monkeypatch.setenv("TEAM_URL", team.url)
        assert cli("notify", "test").out == "ops: sent\nteam: sent\n"
        assert cli("notify", "test", "--policy", "policy.toml").out == "ops: sent\nteam: sent\ngate: sent\n"
        assert cli("notify", "test", "--policy", "policy.json").out == "ops: sent\nteam: sent\njson: sent\n"
    assert (len(receiver.requests), len(team.requests)) == (3, 4)


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        ("critiqor.toml", '[notify.channels.x]\nkind = "command"\ncommand = ["id"]', "must not start programs"),
        ("critiqor.toml", "notify = 5", "notify in critiqor.toml: it must be a table"),
        (
            "config/critiqor/config.toml",
            '[notify]\nquiet = "x"',
            "notify in config.toml: object contains unknown field",
        ),
    ],
)
def test_mistakes_in_the_table_are_errors_of_every_verb(
    cli: Cli, tmp_path: Path, configure: Configure, file: str, text: str, expected: str
) -> None:
    (tmp_path / file).write_text(text)
    answer = cli("runs")
    assert answer.code == ExitCode.USAGE
    assert expected in answer.err.replace("Object", "object")


def test_a_policy_with_channels_is_a_policy(cli: Cli, runs: Runs, tmp_path: Path) -> None:
    run_id = start(runs)
    runs.finalize(run_id)
    (tmp_path / "policy.toml").write_text(
        'max_findings = 50\nrequire_finished = false\n[notify]\nmin_severity = "low"\n'
    )
    assert cli("check", run_id, "--policy", "policy.toml").code == ExitCode.OK


def test_a_full_disk_under_the_outbox_breaks_no_finalize(cli: Cli, runs: Runs, configure: Configure) -> None:
    start(runs)
    configure("http://127.0.0.1:1")
    runs.paths.notify_folder.write_text("a file where the folder should be")
    answer = cli("finalize", "--no-dashboard")
    assert answer.code == ExitCode.OK
    assert runs.status("run_001") == "COMPLETED"
    assert "the findings of run_001 could not be announced" in answer.err


def test_a_process_of_its_own_delivers_from_another_folder(tmp_path: Path, runs: Runs) -> None:
    start(runs)
    home = tmp_path / "home"
    (home / ".config" / "critiqor").mkdir(parents=True)
    with collector() as receiver:
        table = f'[notify.channels.ops]\nkind = "webhook"\nurl = "{receiver.url}"\n'
        (home / ".config" / "critiqor" / "config.toml").write_text(table)
        done = run_critiqor("finalize", "--no-dashboard", "--runs-dir", runs.folder, home=home)
        assert done.returncode == 0, done.stderr
    assert len(alert_keys_received(receiver)) == 1
