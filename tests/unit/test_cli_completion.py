"""Shell completion: verbs, options, runs and findings, requested as shells do it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pexpect
import pytest
from diagnosed import diagnosis, finding, store
from support import PATIENCE_SECONDS, Cli, Runs, critiqor_command, environment

from critiqor.cli.root_command import VERBS, critiqor
from critiqor.errors import ExitCode

ASK_BASH = """
eval "$(critiqor completion bash)"
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_critiqor_completion critiqor 2> compopt
printf '%s\\n' "${COMPREPLY[@]}"
"""
HOSTILE = "evil\n$(touch owned)\x1b[2J \u202e" + "x" * 500


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with three runs, one of which has two findings and one a broken record."""
    runs = Runs(tmp_path / "runs")
    loop = finding("tool_loop", "high", id="finding_001", title=HOSTILE)
    store(runs, diagnosis("run_001", loop, finding("b", "low", id="finding_002"), finding(id="$(touch owned)")))
    store(runs, diagnosis("run_002"))
    runs.paths.run_path("run_010").write_text("{")
    return tmp_path


def bash(home: Path, *words: str, **extra: str) -> list[str]:
    """What a real bash would offer for the last of these words."""
    command = ["bash", "--norc", "-c", ASK_BASH, "bash", *words]
    done = subprocess.run(
        command, cwd=home, env=environment(home, **extra), capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )
    assert (done.returncode, done.stderr) == (0, "")
    return [line for line in done.stdout.splitlines() if line]


def asked_by(shell: str, home: Path, *words: str) -> str:
    """What the program answers when the script of a shell asks it."""
    variables = {"_CRITIQOR_COMPLETE": f"{shell}_complete", "COMP_WORDS": " ".join(words)}
    place = {"COMP_CWORD": words[-1] if shell == "fish" else str(len(words) - 1)}
    answer = subprocess.run(
        critiqor_command(),
        cwd=home,
        env=environment(home, **variables, **place),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert (answer.returncode, answer.stderr) == (0, "")
    return answer.stdout


def test_verbs_are_completed(home: Path) -> None:
    assert bash(home, "critiqor", "") == list(VERBS)
    assert bash(home, "critiqor", "co") == ["compare", "completion"]
    assert bash(home, "critiqor", "monitor", "") == ["openclaw"]
    assert bash(home, "critiqor", "--no") == ["--no-color"]
    assert bash(home, "critiqor", "completion", "") == ["bash", "zsh", "fish"]


@pytest.mark.parametrize("verb", ["show", "explain", "verify", "watch", "finalize", "abort", "compare", "benchmark"])
def test_runs_are_completed_the_newest_first(home: Path, verb: str) -> None:
    assert bash(home, "critiqor", verb, "run_0") == ["run_010", "run_002", "run_001"]


def _commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from _commands(child, (*path, name))
    else:
        yield " ".join(path), command


def test_every_run_or_finding_argument_is_completed() -> None:
    named = {"run", "run_id", "before", "after", "finding", "what", "names", "script"}
    arguments = [
        (verb, each)
        for verb, command in _commands(critiqor)
        for each in command.params
        if isinstance(each, click.Argument) and each.name in named
    ]
    assert {"check", "export", "report", "dashboard", "lab from-run"} <= {verb for verb, _ in arguments}
    assert [verb for verb, each in arguments if each._custom_shell_complete is None] == []


def test_scenarios_are_completed_by_their_files(home: Path) -> None:
    (home / "mine").mkdir()
    for name in ("one.toml", "two.toml", "$(touch owned).toml", "two.txt"):
        (home / "mine" / name).write_text("not even a scenario")
    assert bash(home, "critiqor", "lab", "run", "--scenarios", "mine", "") == ["one", "two"]
    assert bash(home, "critiqor", "lab", "run", "false_claim_t") == ["false_claim_tests"]
    assert bash(home, "critiqor", "lab", "model", "false_claim_t") == ["false_claim_tests"]


def test_runs_are_completed_for_arguments_that_take_files_too(home: Path) -> None:
    assert bash(home, "critiqor", "timeline", "run_00") == ["run_002", "run_001"]
    assert bash(home, "critiqor", "diagnose", "nothing") == []
    assert "compopt" in (home / "compopt").read_text(), "bash completes files too"


def test_findings_are_completed_except_names_that_a_shell_would_execute(home: Path) -> None:
    assert bash(home, "critiqor", "explain", "run_001", "") == ["finding_001", "finding_002"]
    assert bash(home, "critiqor", "explain", "run_002", "") == []
    assert bash(home, "critiqor", "explain", "run_404", "") == []
    assert not (home / "owned").exists()


def test_the_runs_folder_is_that_of_the_option_the_variable_or_the_settings(home: Path) -> None:
    (home / "runs").rename(home / "elsewhere")
    assert bash(home, "critiqor", "show", "") == []
    assert bash(home, "critiqor", "show", "--runs-dir", "elsewhere", "run_001") == ["run_001"]
    assert bash(home, "critiqor", "show", "run_001", CRITIQOR_RUNS_DIR="elsewhere") == ["run_001"]
    (home / "pyproject.toml").write_text('[tool.critiqor]\nruns_dir = "elsewhere"\nunknown = 1\n')
    assert asked_by("bash", home, "critiqor", "show", "run_001") == "plain,run_001\n"


def test_a_failed_completion_prints_nothing(home: Path) -> None:
    assert asked_by("bash", home, "critiqor", "show", "--runs-dir", "pyproject.toml", "x").strip() == ""
    (home / "critiqor.toml").write_text("broken")
    assert asked_by("bash", home, "critiqor", "show", "r").strip() == ""
    assert asked_by("bash", home, "critiqor", "nosuchverb", "zz").strip() == ""


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_shells_that_show_a_description_get_one_line_of_it_without_control_characters(home: Path, shell: str) -> None:
    answer = asked_by(shell, home, "critiqor", "explain", "run_001", "finding_001")
    assert "finding_001" in answer
    assert "high: evil $(touch owned)�[2J �xxx" in answer
    assert answer.replace("\n", "").replace("\t", "").isprintable()
    assert len(answer.splitlines()) == (3 if shell == "zsh" else 1)
    assert len(answer) < 150


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_of_every_shell_is_valid(cli: Cli, tmp_path: Path, shell: str) -> None:
    answer = cli("completion", shell)
    assert (answer.code, answer.err) == (ExitCode.OK, "")
    assert f"_CRITIQOR_COMPLETE={shell}_complete" in answer.out
    assert cli("completion", shell, "--json").data == {"shell": shell, "script": answer.out}
    if found := shutil.which(shell):
        script = tmp_path / "script"
        script.write_text(answer.out)
        assert subprocess.run([found, "-n", script], check=False).returncode == 0


def test_tab_completes_in_an_interactive_bash(home: Path) -> None:
    shell = pexpect.spawn(
        "bash",
        ["--norc", "--noprofile", "-i"],
        cwd=str(home),
        env=environment(home, PS1="> ", INPUTRC=os.devnull),
        encoding="utf-8",
        timeout=PATIENCE_SECONDS,
    )
    try:
        shell.expect_exact("> ")
        shell.sendline('eval "$(critiqor completion bash)"')
        shell.expect_exact("> ")
        shell.send("critiqor expl\t")
        shell.expect_exact("critiqor explain ")
        shell.send("run_001 f\t")
        shell.expect(r"run_001 f\x07?inding_00")
        shell.sendcontrol("u")
        shell.send("critiqor verify run_01\t")
        shell.expect_exact("critiqor verify run_010 ")
    finally:
        shell.close(force=True)
