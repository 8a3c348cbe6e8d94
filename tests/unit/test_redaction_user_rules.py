"""Rules and exceptions of a user: read from the user's settings, and applied by every recorder of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import Cli

from critiqor.agentloop.recording.journal_writer import JournalWriter
from critiqor.errors import ExitCode, UsageError
from critiqor.run.store import Run
from critiqor.session import create_session, finalize_session
from critiqor.storage import paths_for
from critiqor.storage.redaction import rules_digest

SETTINGS = """
[redaction]
fields = ["badge number"]
allow = ["EXAMPLE[0-9]+EXAMPLE"]

[[redaction.rules]]
kind = "badge"
pattern = "EMP-([0-9]{6})"
"""


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    path = tmp_path / "config" / "critiqor" / "config.toml"
    path.parent.mkdir(parents=True)
    path.write_text(SETTINGS)
    return path


def new_run(tmp_path: Path) -> Run:
    record = create_session(agent_id="a", runs_dir=tmp_path / "runs")
    return Run(record["run_id"], paths_for(tmp_path / "runs"))


def test_rules_fields_and_exceptions_are_applied(tmp_path: Path, settings: Path) -> None:
    redactor = new_run(tmp_path).redactor()
    safe = redactor.value({"text": "EMP-123456 came", "Badge-Number": "abcd", "password": "EXAMPLE1EXAMPLE"})
    assert safe["text"].startswith("EMP-[redacted:badge:") and safe["text"].endswith("] came")
    assert safe["Badge-Number"].startswith("[redacted:field:")
    assert safe["password"] == "EXAMPLE1EXAMPLE"
    assert redactor.digest != rules_digest()


def test_a_run_keeps_the_rules_it_was_created_with(tmp_path: Path, settings: Path) -> None:
    run = new_run(tmp_path)
    settings.write_text("")
    assert "123456" not in run.redactor().text("EMP-123456")


def test_a_recorder_applies_them_and_sealing_does_not_search_its_records_again(tmp_path: Path, settings: Path) -> None:
    run = new_run(tmp_path)
    journal = JournalWriter(run.paths, run.id)
    assert journal.redaction == run.redactor().digest
    envelope = {"session_key": "s", "tool_name": None, "tool_call_id": None, "status": "ok", "error": None}
    kinds = {"event_type": "message_received", "raw_event_type": "message_received", "source_layer": "extension_api"}
    journal.append(
        {"event_id": "", "timestamp": "", **kinds, **envelope, "payload": {"text": "EMP-123456"}}, journal.now()
    )
    journal.close()
    assert b"123456" not in run.paths.journal_path(run.id).read_bytes()
    finalize_session(run.id, runs_dir=tmp_path / "runs")
    assert b"[redacted:badge:" in run.evidence_path.read_bytes()
    assert run.coverage().secrets_redacted == {"badge": 1}


def test_nothing_is_sealed_without_rules_that_are_damaged(tmp_path: Path, settings: Path, cli: Cli) -> None:
    run = new_run(tmp_path)
    rules = run.paths.redaction_rules_path(run.id)
    rules.write_bytes(rules.read_bytes()[:-5])
    answer = cli("finalize", run.id, "--no-dashboard")
    assert answer.code != ExitCode.OK
    assert "the redaction rules of this run cannot be read" in answer.err
    assert f"rm {rules}" in answer.err
    assert not JournalWriter(run.paths, run.id).append({"event_type": "x"}, 1), "counted as lost"
    rules.unlink()
    assert cli("finalize", run.id, "--no-dashboard").code == ExitCode.OK


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ("rules = 3", "Expected"),
        ("others = []", "unknown field"),
        ("rules = [{kind = 'Badge', pattern = 'a'}]", "small letters"),
        ("rules = [{kind = 'badge', pattern = '('}]", "not valid"),
        ("rules = [{kind = 'badge', pattern = '(?i)a'}]", "JavaScript"),
        ("rules = [{kind = 'badge', pattern = '(a)(b)'}]", "more than one group"),
        ("allow = ['a*']", "empty"),
    ],
)
def test_a_mistake_is_named_before_anything_is_recorded(
    tmp_path: Path, settings: Path, cli: Cli, table: str, reason: str
) -> None:
    settings.write_text(f"[redaction]\n{table}\n")
    with pytest.raises(UsageError, match=reason) as caught:
        new_run(tmp_path)
    assert str(settings) in str(caught.value.fix)
    assert cli("runs").code == ExitCode.USAGE


def test_a_folder_cannot_allow_secrets(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "critiqor.toml").write_text("[redaction]\nallow = ['.+']\n")
    answer = cli("runs")
    assert answer.code == ExitCode.USAGE
    assert "unknown settings in critiqor.toml: redaction" in answer.err


def test_a_run_without_rules_of_the_user_has_no_file_of_them(tmp_path: Path, settings: Path) -> None:
    settings.write_text("agent_id = 'a'\n")
    run = new_run(tmp_path)
    assert not run.paths.redaction_rules_path(run.id).exists()
    assert json.dumps(run.redactor().text("EMP-123456")) == '"EMP-123456"'
