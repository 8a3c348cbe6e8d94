from __future__ import annotations

import gc
import json
import sys
from pathlib import Path

import click
import pytest
from collectors import collector
from support import STANDIN, Cli, Runs, attached, recorded, script

from critiqor import __version__
from critiqor.cli import main
from critiqor.cli.root_command import VERBS, critiqor
from critiqor.cli.settings import KEYS
from critiqor.errors import ExitCode
from critiqor.model.sanitize import sanitize_for_terminal
from critiqor.session import abort_session, request_finalize, write_json


def sealed(runs: Runs) -> str:
    runs.seal(attached(), recorded(2), recorded(3, "tool_result", status="error"))
    return runs.paths.run_ids()[-1]


def every_command() -> list[list[str]]:
    return [[verb] for verb in VERBS] + [["monitor", "openclaw"], []]


@pytest.mark.parametrize("command", every_command(), ids=" ".join)
@pytest.mark.parametrize("option", ["-h", "--help"])
def test_every_verb_has_help(cli: Cli, command: list[str], option: str) -> None:
    answer = cli(*command, option)
    assert answer.code == ExitCode.OK
    assert answer.out.startswith("Usage: critiqor")
    assert answer.err == ""


def test_every_verb_that_names_a_folder_has_the_same_option() -> None:
    context = click.Context(critiqor)
    without_runs = {"agent", "completion", "demo", "detach", "keys", "lab"}
    for verb in (verb for verb in VERBS if verb not in without_runs):
        command = critiqor.get_command(context, verb)
        if isinstance(command, click.Group):
            names = {"notify": "flush", "policy": "test", "fleet": "status"}
            command = command.get_command(context, names.get(verb, "openclaw"))
        assert command is not None
        assert "runs_dir" in {parameter.name for parameter in command.params}
        assert command.help


def test_version_and_bare_command(cli: Cli) -> None:
    assert cli("--version").out == f"critiqor, version {__version__}\n"
    bare = cli()
    assert bare.code == ExitCode.USAGE
    assert bare.err.startswith("Usage: critiqor")
    assert all(verb in bare.err for verb in VERBS)


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [(["finalise"], "critiqor finalize"), (["run"], "critiqor runs"), (["runs", "--run-dir", "x"], "--runs-dir")],
)
def test_a_misspelled_verb_or_option_gets_a_suggestion(cli: Cli, arguments: list[str], meant: str) -> None:
    answer = cli(*arguments)
    assert answer.code == ExitCode.USAGE
    assert answer.out == ""
    assert meant in answer.err


def test_data_goes_to_stdout_and_messages_to_stderr(cli: Cli, runs: Runs) -> None:
    empty = cli("runs")
    assert (empty.code, empty.err) == (ExitCode.OK, "")
    assert "critiqor monitor openclaw" in empty.out
    run_id = sealed(runs)
    for arguments in (("runs",), ("show", run_id), ("verify", run_id), ("diagnose", run_id)):
        answer = cli(*arguments)
        assert (answer.code, answer.err) == (ExitCode.OK, "")
        assert run_id in answer.out
    failed = cli("show", "run_404")
    assert (failed.code, failed.out) == (ExitCode.ERROR, "")
    assert "run_404" in failed.err
    assert "→ critiqor runs" in failed.err


def test_answers_as_json_have_one_shape(cli: Cli, runs: Runs) -> None:
    runs.start(agent_id="me")
    runs.write("run_001", attached(), recorded(2))
    finalized = cli("finalize", "--json", "--no-dashboard")
    assert finalized.document["verb"] == "finalize"
    assert finalized.data["status"] == "COMPLETED"
    assert finalized.data["diagnosis"]["trust_score"] == 100
    shown = cli("show", "run_001", "--json").data
    assert shown["diagnosis"] == finalized.data["diagnosis"]
    assert cli("diagnose", "run_001", "--json").data["run_id"] == "run_001"
    assert cli("verify", "run_001", "--json").data["intact"] is True
    [row] = cli("runs", "--json").data
    assert (
        row.items() >= {"run_id": "run_001", "status": "COMPLETED", "agent_id": "me", "trust": 100, "events": 4}.items()
    )
    runs.start()
    assert cli("abort", "--json", "--reason", "why not").data == {
        "run_id": "run_002",
        "status": "ABORTED",
        "reason": "why not",
    }


@pytest.mark.parametrize(
    ("arguments", "kind", "code"),
    [
        (("show", "run_404"), "UnknownRunError", 1),
        (("show", "../run_001"), "UsageError", 2),
        (("verify", "/etc/passwd"), "UsageError", 2),
        (("diagnose", "a/../../b"), "UsageError", 2),
        (("abort", ".."), "UsageError", 2),
        (("finalize", "../run_001"), "UsageError", 2),
        (("finalize", "run_404"), "UnknownRunError", 1),
        (("finalize",), "NoActiveSessionError", 1),
        (("abort",), "NoActiveSessionError", 1),
        (("show",), "MissingParameter", 2),
        (("runs", "--unknown"), "NoSuchOption", 2),
        (("runs", "--runs-dir", "file"), "NotADirectoryError", 1),
        (("finalize", "--runs-dir", "file"), "FileExistsError", 1),
        (("finalize", "--runs-dir", "file/below"), "NotADirectoryError", 1),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_errors_as_json_have_one_shape_and_text_names_the_same(
    cli: Cli, tmp_path: Path, arguments: tuple[str, ...], kind: str, code: int
) -> None:
    (tmp_path / "file").write_text("no folder")
    as_json = cli(*arguments, "--json")
    assert as_json.code == code
    assert as_json.error.keys() == {"type", "message", "fix", "exit_code"}
    assert (as_json.error["type"], as_json.error["exit_code"]) == (kind, code)
    as_text = cli(*arguments)
    assert as_text.code == code
    assert as_text.out == ""
    assert as_text.err.startswith("critiqor: ")
    assert "Traceback" not in as_text.err


def test_json_behind_the_terminator_is_for_the_launched_program(cli: Cli) -> None:
    answer = cli("monitor", "openclaw", "--openclaw-command", "/nowhere/openclaw", "--", "agent", "--json")
    assert answer.code == ExitCode.NOT_FOUND
    assert answer.out == ""
    assert "npm install -g openclaw" in answer.err


def test_finalize_takes_a_run_and_answers_without_its_event_log(cli: Cli, runs: Runs) -> None:
    run_id = runs.start()
    first = cli("finalize", run_id, "--json")
    assert (first.code, first.data["run_id"], first.data["status"]) == (ExitCode.OK, run_id, "COMPLETED")
    assert "event_log" not in first.data
    again = cli("finalize", run_id, "--json")
    assert (again.code, again.data) == (ExitCode.OK, first.data)


def test_finalize_typed_a_second_time_names_the_run(cli: Cli, runs: Runs) -> None:
    run_id = runs.start()
    assert cli("finalize").code == ExitCode.OK
    again = cli("finalize")
    assert again.code == ExitCode.ERROR
    assert f"critiqor show {run_id}" in again.err


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[" * 20_000, b'{"run_id":"run_001"}'], ids=["empty", "{}", "deep", "sparse"]
)
def test_broken_record_is_named_among_good_ones(cli: Cli, runs: Runs, content: bytes) -> None:
    for _ in range(3):
        sealed(runs)
    runs.paths.run_path("run_002").write_bytes(content)
    (runs.folder / "notes.json").write_text("{}")
    text = cli("runs")
    assert (text.code, text.err) == (ExitCode.OK, "")
    lines = text.out.splitlines()
    assert len(lines) == 5
    assert "UNREADABLE" in next(line for line in lines if line.startswith("run_002"))
    rows = {row["run_id"]: row for row in cli("runs", "--json").data}
    assert rows["run_003"]["status"] == rows["run_001"]["status"] == "COMPLETED"
    assert "cannot be read" in rows["run_002"]["headline"]
    assert rows["run_002"].keys() == rows["run_001"].keys()
    assert cli("show", "run_002").code == ExitCode.ERROR


def test_a_folder_with_the_name_of_a_record_is_reported(cli: Cli, runs: Runs) -> None:
    sealed(runs)
    (runs.folder / "run_002.json").mkdir()
    assert [row["status"] for row in cli("runs", "--json").data] == ["UNREADABLE", "COMPLETED"]


def test_runs_are_listed_newest_first_by_number(cli: Cli, runs: Runs) -> None:
    run_id = sealed(runs)
    for number in (2, 10, 1000):
        record = runs.record(run_id) | {"run_id": f"run_{number:03d}"}
        write_json(runs.paths.run_path(record["run_id"]), record)
    assert [row["run_id"] for row in cli("runs", "--json").data] == ["run_1000", "run_010", "run_002", "run_001"]


def test_show_prints_the_state_of_a_run(cli: Cli, runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = runs.start()
    assert f"Being recorded.\n  Next: critiqor finalize {run_id}\n" in cli("show", run_id).out
    monkeypatch.setattr("critiqor.cli.texts.show.is_owner_alive", lambda _: False)
    assert f"critiqor finalize {run_id}   (or: critiqor abort {run_id})" in cli("show", run_id).out
    runs.paths.diagnosis_path(run_id).write_text("left by a finalize that was killed")
    request_finalize(run_id, runs_dir=runs.folder)
    assert "FINALIZING" in cli("show", run_id).out
    abort_session(runs_dir=runs.folder)
    assert f"critiqor diagnose {run_id}" in cli("show", run_id).out


def test_show_says_that_the_evidence_is_gone_or_changed(cli: Cli, runs: Runs) -> None:
    run_id = sealed(runs)
    document = runs.paths.evidence_summary_path(run_id)
    document.chmod(0o600)
    document.write_text("{}")
    assert "was changed" in cli("show", run_id).out
    document.unlink()
    assert "is gone" in cli("show", run_id).out
    runs.paths.diagnosis_path(run_id).write_text("{")
    answer = cli("show", run_id)
    assert answer.code == ExitCode.ERROR
    assert f"critiqor diagnose {run_id}" in answer.err


def test_verify_answers_with_its_exit_code(cli: Cli, runs: Runs) -> None:
    run_id = sealed(runs)
    assert cli("verify", run_id).code == ExitCode.OK
    runs.paths.diagnosis_path(run_id).unlink()
    broken = cli("verify", run_id)
    assert broken.code == ExitCode.ERROR
    assert "BROKEN" in broken.out
    assert cli("verify", run_id, "--json").data["intact"] is False


ESCAPES = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\r\x08"


def test_control_characters_never_reach_the_terminal(cli: Cli, runs: Runs) -> None:
    run_id = runs.start(agent_id=f"agent{ESCAPES}\nrun_666  COMPLETED")
    runs.write(run_id, attached(), recorded(2, ESCAPES, tool_name=ESCAPES, error=ESCAPES, status="error"))
    abort_session(reason=ESCAPES, runs_dir=runs.folder)
    for arguments in (("diagnose", run_id), ("show", run_id), ("runs",), ("show", f"x{ESCAPES}"), (ESCAPES,)):
        for output in (cli(*arguments), cli(*arguments, "--json")):
            shown = output.out + output.err
            assert not {character for character in ESCAPES if not character.isprintable()} & set(shown)
            assert "\nrun_666" not in shown


def test_plain_text_keeps_letters_and_line_breaks() -> None:
    assert sanitize_for_terminal("grün → ok\n\t終") == "grün → ok\n\t終"
    assert sanitize_for_terminal("\x1b[31m\x00\x7f\u200b") == "�[31m���"


def test_flag_outranks_variable_outranks_file_outranks_default(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def folder_used(*flags: str) -> str:
        return cli("runs", *flags).out.split("No runs in ")[1].split(" yet")[0].removeprefix(f"{tmp_path}/")

    assert folder_used() == "runs"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "config" / "critiqor").mkdir(parents=True)
    (tmp_path / "config" / "critiqor" / "config.toml").write_text('runs_dir = "mine"')
    assert folder_used() == "mine"
    (tmp_path / "pyproject.toml").write_text('[tool.critiqor]\nruns_dir = "shared"')
    assert folder_used() == "shared"
    (tmp_path / "critiqor.toml").write_text('runs_dir = "own"')
    assert folder_used() == "own"
    monkeypatch.setenv("CRITIQOR_RUNS_DIR", "variable")
    assert folder_used() == "variable"
    assert folder_used("--runs-dir", "flag") == "flag"


def test_settings_reach_the_monitor(cli: Cli, tmp_path: Path, runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {
        "openclaw_command": str(script(tmp_path / "openclaw", "#!/bin/sh\nexit 0\n")),
        "agent_id": "from file",
        "tenant_id": "from file",
        "benchmark_id": "from file",
        "difficulty_tier": "from file",
        "visibility": "shared",
        "timeout": 60,
        "runs_dir": "runs",
        "otlp_endpoint": "http://127.0.0.1:1",
        "otlp_content": True,
    }
    assert settings.keys() == KEYS - {"redaction", "notify", "retention", "fleet"}  # no options of a verb
    users = tmp_path / "config" / "critiqor" / "config.toml"
    users.parent.mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("TENANT_ID", "BENCHMARK_ID", "DIFFICULTY_TIER"):
        monkeypatch.setenv(f"CRITIQOR_{name}", "from variable")
    with collector() as made:
        settings["otlp_endpoint"] = made.url
        users.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items()))
        assert cli("monitor", "openclaw", "--difficulty-tier", "from flag").code == ExitCode.OK
    assert b"run run_001" in b"".join(made.bodies)
    metadata = runs.record("run_001")["metadata"]
    assert metadata == {
        "agent_id": "from file",
        "tenant_id": "from variable",
        "framework": "openclaw",
        "visibility": "shared",
        "benchmark_id": "from variable",
        "difficulty_tier": "from flag",
    }


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        ("critiqor.toml", 'run_dir = "x"', "run_dir"),
        ("critiqor.toml", "= nonsense", "critiqor.toml cannot be read"),
        ("critiqor.toml", 'openclaw_command = "evil"', "unknown settings in critiqor.toml: openclaw_command"),
        ("critiqor.toml", 'visibility = "secret"', "secret"),
        ("critiqor.toml", 'timeout = "soon"', "soon"),
        ("critiqor.toml", f"timeout = {'9' * 5000}", "critiqor.toml cannot be read"),
        ("config/critiqor/config.toml", 'run_dir = "x"', "unknown settings in config.toml: run_dir"),
        ("config/critiqor/config.toml", "= nonsense", "config.toml cannot be read"),
    ],
)
def test_wrong_settings_are_errors(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, text: str, expected: str
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(text)
    answer = cli("monitor", "openclaw", "--openclaw-command", STANDIN)
    assert answer.code == ExitCode.USAGE
    assert expected in answer.err


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"= nonsense", "is ignored"),
        (b"\xff\xfe", "is ignored"),
        (b"x = " + b"[" * 20_000, "is ignored"),
        (b"x = " + b"9" * 5000, "is ignored"),
        (b"tool = 1", "not a table"),
        (b"tool = []", "not a table"),
        (b"[tool]\ncritiqor = 5", "not a table"),
        (b"[tool.critiqor]\ntimeouts = 5", "timeouts"),
        (b"[tool.critiqor]\nruns_dir = ['a']", "runs_dir"),
        (b"[tool.critiqor.openclaw]\nx = 1", "openclaw"),
    ],
    ids=lambda value: repr(value[:30]),
)
def test_an_unusable_pyproject_gives_one_warning_and_disables_nothing(
    cli: Cli, tmp_path: Path, text: bytes, expected: str
) -> None:
    (tmp_path / "pyproject.toml").write_bytes(text)
    answer = cli("runs", "--json")
    assert (answer.code, answer.data) == (ExitCode.OK, [])
    [line] = answer.err.splitlines()
    assert line.startswith("critiqor: pyproject.toml")
    assert expected in line


def test_usable_settings_of_a_pyproject_stay(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.critiqor]\nruns_dir = "shared"\nnew_in_2030 = 1')
    assert f"No runs in {tmp_path}/shared yet" in cli("runs").out


def test_a_pyproject_without_settings_is_ignored(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.ruff]\nline-length = 120")
    assert cli("runs").err == ""


def test_command_that_changes_settings_is_refused_with_the_way_out(cli: Cli, runs: Runs) -> None:
    answer = cli("monitor", "openclaw", "--openclaw-command", STANDIN, "--", "configure")
    assert answer.code == ExitCode.USAGE
    assert "openclaw configure   without critiqor" in answer.err
    assert not runs.folder.exists()


def test_an_internal_error_has_no_traceback_without_debug(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("critiqor.run.store.paths_for", fail)
    answer = cli("runs")
    assert answer.code == ExitCode.ERROR
    assert "internal error: ZeroDivisionError: oops" in answer.err
    assert "critiqor -v" in answer.err
    monkeypatch.setenv("CRITIQOR_DEBUG", "1")
    monkeypatch.setattr(sys, "argv", ["critiqor", "runs"])
    with pytest.raises(ZeroDivisionError):
        main()


def test_doctor_names_a_fix_for_each_failure(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "file").write_text("")
    answer = cli("doctor", "--runs-dir", "file", "--openclaw-command", "/nowhere/openclaw", "--json")
    assert answer.code == ExitCode.ERROR
    checks = {check["name"]: check for check in answer.data}
    assert not checks["runs folder"]["ok"]
    assert not checks["openclaw"]["ok"]
    assert all(check["fix"] for check in answer.data if not check["ok"])
    text = cli("doctor", "--openclaw-command", "/nowhere/openclaw")
    assert text.code == ExitCode.ERROR
    assert "npm install -g openclaw" in text.out


def test_unreadable_folder_is_an_error_and_not_an_empty_one(
    cli: Cli, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(folder: Path) -> None:
        raise PermissionError(13, "Permission denied", str(folder))

    runs.folder.mkdir()
    monkeypatch.setattr("os.scandir", refuse)
    answer = cli("runs")
    assert (answer.code, answer.out) == (ExitCode.ERROR, "")
    assert f"Permission denied: {runs.folder}" in answer.err


def test_garbage_collection_is_on_again_after_a_finalize_that_failed(cli: Cli, runs: Runs) -> None:
    assert cli("finalize", "run_404", "--no-dashboard").code == 1
    assert gc.isenabled()
