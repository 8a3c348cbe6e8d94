"""What is around an agent in the lab: its shell, its files, its clock."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from critiqor.lab.runners.openclaw_home import write_openclaw_home
from critiqor.lab.runners.replay_shell import write_replay_shell
from critiqor.lab.runners.sandbox import fill_workspace
from critiqor.lab.scenario import Command, World
from critiqor.openclaw.config_patch import apply_patch


def run(shell: str, line: str) -> tuple[int, str]:
    done = subprocess.run([shell, "-c", line], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def test_known_command_lines_are_answered_in_order_and_others_are_run(tmp_path: Path) -> None:
    line = "deploy 'it' && echo \"done\""
    commands = [Command(line=line, output="refused\n", exit_code=7), Command(line=line, output="fine — ä\n")]
    shell = write_replay_shell(tmp_path / "shell", commands)["SHELL"]
    assert run(shell, line) == (7, "refused\n")
    assert [run(shell, line), run(shell, line)] == [(0, "fine — ä\n")] * 2, "the last answer from then on"
    assert run(shell, "echo real; exit 3") == (3, "real\n")


def test_a_command_line_is_known_after_the_path_that_a_gateway_sets(tmp_path: Path) -> None:
    prefix = 'export PATH="${OPENCLAW_PREPEND_PATH}${PATH:+:$PATH}"; unset OPENCLAW_PREPEND_PATH; '
    lines = ["deploy", "echo a; unset OPENCLAW_PREPEND_PATH; echo b"]
    shell = write_replay_shell(tmp_path / "shell", [Command(line=line, output="refused\n") for line in lines])["SHELL"]
    assert [run(shell, prefix + line) for line in lines] == [(0, "refused\n")] * 2
    assert run(shell, prefix + "echo real") == (0, "real\n")


def test_commands_at_the_same_time_get_one_answer_each(tmp_path: Path) -> None:
    commands = [Command(line="next", output=str(number)) for number in range(8)]
    shell = write_replay_shell(tmp_path / "shell", commands)["SHELL"]
    with ThreadPoolExecutor(8) as pool:
        answers = pool.map(lambda _: run(shell, "next")[1], range(8))
    assert sorted(answers) == [str(number) for number in range(8)]


def test_a_workspace_holds_the_files_of_the_world_and_a_full_one_takes_no_byte(tmp_path: Path) -> None:
    fill_workspace(World(files={"a/b.txt": "apples\n"}, full=("c/report.txt",)), tmp_path)
    assert (tmp_path / "a" / "b.txt").read_text() == "apples\n"
    with pytest.raises(OSError, match="No space left"):
        (tmp_path / "c" / "report.txt").write_text("x")


def test_configuration_is_merged_table_by_table() -> None:
    below = {"a": {"b": 1, "c": 2}, "d": [1]}
    assert apply_patch(below, {"a": {"c": 3}, "d": [2], "e": 4}) == {"a": {"b": 1, "c": 3}, "d": [2], "e": 4}
    assert below == {"a": {"b": 1, "c": 2}, "d": [1]}


def test_a_faster_clock_turns_time_and_durations_but_no_timers(tmp_path: Path) -> None:
    (tmp_path / "tell.py").write_text(
        "import time\n"
        "begun = time.time(), time.perf_counter(), time.monotonic()\n"
        "time.sleep(0.02)\n"
        "ended = time.time(), time.perf_counter(), time.monotonic()\n"
        "print(*(later - before for before, later in zip(begun, ended)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "critiqor.lab.runners.clock", "1000", str(time.time_ns()), "tell"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    day, measured, timer = map(float, done.stdout.split())
    assert day >= 20 and measured >= 20
    assert timer < measured / 100


def test_the_scripted_openclaw_of_the_lab_has_no_heartbeat_that_would_play_a_step_of_the_script(tmp_path: Path) -> None:
    write_openclaw_home(tmp_path, "http://127.0.0.1:1/v1", {"agents": {"defaults": {"skipBootstrap": False}}})
    configured = json.loads((tmp_path / ".openclaw" / "openclaw.json").read_text())
    defaults = configured["agents"]["defaults"]
    assert defaults["heartbeat"] == {"every": "0m"}
    assert defaults["skipBootstrap"] is False
