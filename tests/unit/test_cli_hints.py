"""Suggested commands work when they are pasted."""

from __future__ import annotations

import shlex
from pathlib import Path

import msgspec
import pytest
from story import Story
from support import Cli, Runs, attached, recorded, run_critiqor
from terminal import shown

from critiqor.cli.hints import add_runs_dir, remember_runs_dir
from critiqor.errors import ExitCode
from critiqor.session import abort_session


@pytest.fixture
def elsewhere(tmp_path: Path) -> Runs:
    """Runs in another folder than the default: one clean, one with a finding, one aborted."""
    runs = Runs(tmp_path / "my runs")
    runs.seal(attached(), recorded(2))
    circling = Story().starts()
    for _ in range(6):
        circling.model().runs("grep -rn fence notes", "notes/plan.txt:1:paint the fence")
    runs.seal(attached(at=1_794_000_000_000), *map(msgspec.to_builtins, circling.says("Done.").finishes().events))
    abort_session(runs.start(), runs.paths.runs_dir)
    return runs


@pytest.mark.parametrize(
    ("hint", "with_folder"),
    [
        ("critiqor show run_001", "critiqor show run_001 --runs-dir 'a b'"),
        ("critiqor runs   lists them", "critiqor runs --runs-dir 'a b'   lists them"),
        (
            "critiqor finalize   (or: critiqor abort, or another --runs-dir)",
            "critiqor finalize --runs-dir 'a b'   (or: critiqor abort --runs-dir 'a b', or another --runs-dir)",
        ),
        ("critiqor trends --agent 'my (old) agent'", "critiqor trends --agent 'my (old) agent' --runs-dir 'a b'"),
        (
            "critiqor monitor openclaw -- gateway run",
            "critiqor monitor openclaw --runs-dir 'a b' -- gateway run",
        ),
        ("critiqor show run_001 --runs-dir c", "critiqor show run_001 --runs-dir c"),
        ("critiqor lab list", "critiqor lab list"),
        ("critiqor lab from-run run_001", "critiqor lab from-run run_001 --runs-dir 'a b'"),
        ("critiqor inside the container", "critiqor inside the container"),
        ("openclaw onboard", "openclaw onboard"),
    ],
)
def test_the_runs_dir_is_added_to_commands_that_take_one(hint: str, with_folder: str) -> None:
    remember_runs_dir("a b")
    try:
        assert add_runs_dir(hint) == with_folder
    finally:
        remember_runs_dir(None)
    assert add_runs_dir(hint) == hint


def _suggested(text: str) -> str:
    """Return the command after the last arrow or `Next:`."""
    words = text.replace("→", "Next:").rpartition("Next: ")[2].splitlines()[0]
    return words.partition("   ")[0]


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", "run_002"],
        ["show", "run_003"],
        ["check", "run_001"],
        ["compare", "run_001", "run_002"],
        ["trends"],
        ["explain", "run_002", "finding_009"],
        ["check", "run_003"],
        ["watch", "run_002"],
        ["verify", "run_003"],
        ["show", "run_999"],
    ],
    ids=" ".join,
)
def test_the_next_command_works_when_it_is_pasted(cli: Cli, elsewhere: Runs, arguments: list[str]) -> None:
    answer = cli(*arguments, "--runs-dir", "my runs")
    [name, *words] = shlex.split(_suggested(answer.out + answer.err))
    assert name == "critiqor"
    assert cli(*words).code == ExitCode.OK


def test_a_runs_dir_from_the_environment_is_not_repeated(
    cli: Cli, elsewhere: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "--runs-dir 'my runs'" in cli("show", "run_002", "--runs-dir", "my runs").out
    monkeypatch.setenv("CRITIQOR_RUNS_DIR", "my runs")
    assert "--runs-dir" not in cli("show", "run_002").out


def test_the_drawing_suggests_the_same_command_as_the_text(elsewhere: Runs, tmp_path: Path) -> None:
    arguments = ("show", "run_002", "--runs-dir", "my runs")
    drawn = shown(*arguments, home=tmp_path, columns=100)
    assert _suggested(drawn.text) == "critiqor explain run_002 finding_001 --runs-dir 'my runs'"
    assert _suggested(drawn.text) in run_critiqor(*arguments, home=tmp_path).stdout
