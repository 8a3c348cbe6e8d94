"""`critiqor lab`: everything that plays no scenario."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support import Cli, Runs, attached, critiqor_command, environment, recorded, script

from critiqor.lab.scenario_file import read_scenario, shipped_scenarios

OWN = """
description = "Mine."
[[turns]]
message = "Go."
[[turns.steps]]
text = "Gone."
[expect]
primary = "tool_loop"
"""


def test_the_shipped_scenarios_are_listed_with_what_they_lead_to(cli: Cli) -> None:
    result = cli("lab", "list")
    assert result.code == 0
    assert all(scenario.name in result.out for scenario in shipped_scenarios())
    answered = {one["name"]: one for one in cli("lab", "list", "--json").data}
    assert answered["false_claim_tests"]["expect"]["primary"] == "false_success_claim"
    assert answered["stuck_in_tool"]["on"] == ["embedded"]


def test_scenarios_of_a_folder_are_listed_instead(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(OWN)
    assert [one["name"] for one in cli("lab", "list", "--scenarios", tmp_path, "--json").data] == ["mine"]


@pytest.mark.parametrize("verb", [["list"], ["run"]])
def test_a_bad_file_is_an_error_of_usage_that_names_the_key(cli: Cli, tmp_path: Path, verb: list[str]) -> None:
    (tmp_path / "mine.toml").write_text(OWN.replace("primary", "primry"))
    result = cli("lab", *verb, "--scenarios", tmp_path)
    assert result.code == 2
    assert "mine.toml: there is no key `expect.primry` (did you mean 'primary'?)" in result.err


def test_an_invalid_file_does_not_hide_others_and_is_reported(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "my scenarios"
    folder.mkdir()
    (folder / "good.toml").write_text(OWN.replace('primary = "tool_loop"', ""))
    (folder / "bad.toml").write_text("nonsense")
    listed = cli("lab", "list", "--scenarios", folder)
    assert listed.code == 2
    assert "left out: bad.toml: it is not valid TOML" in listed.err
    assert "good" in listed.out
    assert listed.out.endswith(f"1 scenario. Next: critiqor lab run --scenarios '{folder}'\n")
    played = cli("lab", "run", "--scenarios", folder)
    assert played.code == 2, played
    assert "good: as expected" in played.err
    assert played.err.rstrip().endswith(f"→ correct {folder / 'bad.toml'}")
    assert cli("lab", "run", "good", "--scenarios", folder).code == 0
    named = cli("lab", "run", "bad", "--scenarios", folder)
    assert (named.code, "bad.toml" in named.err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "fix"), [(["lab", "run"], "--on openclaw"), (["demo"], "--openclaw")], ids=["lab run", "demo"]
)
def test_an_unused_openclaw_command_is_rejected(cli: Cli, arguments: list[str], fix: str) -> None:
    result = cli(*arguments, "--openclaw-command", "openclaw")
    assert (result.code, result.out) == (2, "")
    assert f"→ add {fix}, or remove --openclaw-command" in result.err


def test_an_unknown_scenario_is_an_error_of_usage(cli: Cli) -> None:
    result = cli("lab", "run", "retrystorm")
    assert (result.code, result.err) == (
        2,
        "critiqor: there is no scenario 'retrystorm' (did you mean 'retry_storm'?)\n  → critiqor lab list\n",
    )


def test_a_recorded_run_is_printed_as_a_scenario_or_written_to_a_file(cli: Cli, runs: Runs) -> None:
    answered = {"usage": {"input": 10, "output": 2}}
    said = {"role": "assistant", "text": "Hello.\x1b[31m", "stop_reason": "stop"}
    records = [
        attached(),
        recorded(2, "input", payload={"role": "user", "text": "Say hello."}),
        recorded(3, "token_usage", payload=answered),
        recorded(4, "message_end", payload=said),
        recorded(5, "agent_end"),
    ]
    runs.seal(*records)
    printed = cli("lab", "from-run", "run_001")
    assert printed.code == 0 and 'message = "Say hello."' in printed.out
    assert "\x1b" not in printed.out
    result = cli("lab", "from-run", "run_001", "--output", "hello.toml")
    assert "critiqor lab run hello --scenarios ." in result.err
    written = Path("hello.toml").read_text()
    Path("hello.toml").write_text(f"# mine\n{written}")
    again = cli("lab", "from-run", "run_001", "--output", "hello.toml")
    assert (again.code, "→ name another file, or: rm hello.toml" in again.err) == (2, True)
    assert Path("hello.toml").read_text() == f"# mine\n{written}"
    Path("hello.toml").write_text(written)
    nowhere = cli("lab", "from-run", "run_001", "--output", "not/there/hello.toml")
    assert (nowhere.code, f"→ mkdir -p {Path.cwd() / 'not/there'}" in nowhere.err) == (1, True)
    [turn] = read_scenario(Path("hello.toml")).turns
    assert turn.steps[0].text == "Hello.\x1b[31m"
    assert cli("lab", "from-run", "run_001", "--json").data["scenario"] == Path("hello.toml").read_text()


def test_an_unknown_run_is_reported(cli: Cli) -> None:
    assert cli("lab", "from-run", "run_007").code == 1


def test_the_model_of_a_scenario_is_served_until_it_is_interrupted(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(OWN)
    serving = subprocess.Popen(
        critiqor_command("lab", "model", "mine.toml", "--json"),
        cwd=tmp_path,
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert serving.stdout is not None
        result = ""
        while not result.endswith("}\n}\n"):
            result += serving.stdout.readline()
        address = json.loads(result)["data"]["base_url"]
        connection = http.client.HTTPConnection(address.split("/")[2], timeout=30)
        connection.request(
            "POST", "/v1/chat/completions", json.dumps({"messages": [{"role": "user", "content": "Go."}]})
        )
        assert b"Gone." in connection.getresponse().read()
        connection.close()
        serving.send_signal(signal.SIGINT)
        _, said = serving.communicate(timeout=30)
        assert "answered 1 request" in said
        assert serving.returncode == 0
    finally:
        serving.kill()


def test_the_next_commands_of_the_demo_work_in_the_calling_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from critiqor.cli.hints import critiqor_command

    monkeypatch.chdir(tmp_path)
    for name in ("my venv", "other"):
        (tmp_path / name).mkdir()
    mine, other = (script(tmp_path / name / "critiqor", "#!/bin/sh\n") for name in ("my venv", "other"))
    for argv, path, typed in (
        (str(mine), mine.parent, "critiqor"),
        ("my venv/critiqor", tmp_path, "'my venv/critiqor'"),
        ("my venv/critiqor", other.parent, "'my venv/critiqor'"),
        ("critiqor/__main__.py", mine.parent, "critiqor"),
        ("critiqor/__main__.py", tmp_path, f"{sys.executable} -m critiqor"),
    ):
        monkeypatch.setattr("sys.argv", [argv, "demo"])
        monkeypatch.setenv("PATH", str(path))
        assert critiqor_command() == typed
