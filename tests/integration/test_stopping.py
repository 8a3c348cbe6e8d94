"""Stopping an agent from another shell: real monitors around real process trees."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from support import (
    PATIENCE_SECONDS,
    Runs,
    critiqor_command,
    environment,
    kill_tree,
    run_critiqor,
    script,
    start_python,
    wait_until,
)

from critiqor.errors import ExitCode, UsageError
from critiqor.recording.stop import find_agent_processes, stop_agent
from critiqor.session import create_attached_session
from critiqor.storage.seals.verification import verify_run

POLITE = ""
STUBBORN = "signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
TREE = f"""#!{sys.executable}
import os, pathlib, signal, subprocess, sys, time
{{manners}}folder = pathlib.Path(os.environ["PIDS"])
loop = "import time\\nwhile True: time.sleep(0.1)"
tool = subprocess.Popen([sys.executable, "-c", loop])
detached = subprocess.Popen([sys.executable, "-c", loop], start_new_session=True)
(folder / "pids.tmp").write_text(f"{{{{os.getpid()}}}} {{{{tool.pid}}}} {{{{detached.pid}}}}")
(folder / "pids.tmp").rename(folder / "pids")
while True:
    time.sleep(0.1)
"""


class Burning:
    """`critiqor monitor` around an agent with a tool and a process that has detached itself."""

    def __init__(self, home: Path, runs: Runs, manners: str) -> None:
        self.home, self.runs = home, runs
        command = script(home / "openclaw", TREE.format(manners=manners).replace("{{", "{").replace("}}", "}"))
        words = critiqor_command("monitor", "openclaw", "--openclaw-command", command, "--runs-dir", runs.folder)
        self.monitor = subprocess.Popen(
            [*words, "--", "agent"],
            env=environment(home, PIDS=str(home)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        wait_until(lambda: (home / "pids").exists() and runs.notes("run_001", "process_start"))
        self.tree = [psutil.Process(int(pid)) for pid in (home / "pids").read_text().split()]

    @property
    def alive(self) -> list[int]:
        return [each.pid for each in self.tree if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]

    def critiqor(self, *words: str) -> subprocess.CompletedProcess[str]:
        return run_critiqor(*words, "--runs-dir", self.runs.folder, home=self.home)

    def clean_up(self) -> None:
        for process in self.tree:
            kill_tree(process.pid)
        kill_tree(self.monitor.pid)
        self.monitor.communicate()


@pytest.fixture
def burning(tmp_path: Path, runs: Runs) -> Iterator[Burning]:
    started = Burning(tmp_path, runs, POLITE)
    yield started
    started.clean_up()


@pytest.fixture
def stubborn(tmp_path: Path, runs: Runs) -> Iterator[Burning]:
    started = Burning(tmp_path, runs, STUBBORN)
    yield started
    started.clean_up()


def test_abort_stop_ends_the_whole_tree_and_its_end_is_in_the_evidence(burning: Burning, runs: Runs) -> None:
    result = burning.critiqor("abort", "--stop")
    assert result.returncode == ExitCode.OK
    assert burning.alive == []
    assert "OpenClaw is stopped: 3 processes ended." in result.stdout
    assert "run_001 is ABORTED; its evidence is kept." in result.stdout
    assert result.stderr == ""
    assert burning.monitor.wait(PATIENCE_SECONDS) == 128 + signal.SIGTERM
    assert len(runs.notes("run_001", "process_end")) == 1
    assert runs.status("run_001") == "ABORTED"


def test_an_agent_that_ignores_signals_is_killed(stubborn: Burning, runs: Runs) -> None:
    assert stop_agent("run_001", runs.folder, grace=0.5) == 3
    assert stubborn.alive == []
    stubborn.monitor.wait(PATIENCE_SECONDS)
    assert len(runs.notes("run_001", "process_end")) == 1


def test_finalize_warns_that_the_agent_is_still_running_and_the_command_it_names_stops_it(
    burning: Burning, runs: Runs
) -> None:
    said = burning.critiqor("-q", "finalize", "--no-dashboard").stderr
    pid = burning.tree[0].pid
    running = f"critiqor: OpenClaw (pid {pid}) is still running and is no longer recorded; to stop it: critiqor "
    assert said.startswith(f"{running}abort --stop run_001 --runs-dir ")
    assert len(burning.alive) == 3
    sealed = runs.evidence_bytes("run_001")
    result = burning.critiqor("abort", "--stop", "run_001", "--json")
    data = json.loads(result.stdout)["data"]
    assert (data["status"], data["processes_ended"]) == ("COMPLETED", 3)
    assert burning.alive == []
    assert runs.evidence_bytes("run_001") == sealed
    assert verify_run(runs.paths, "run_001").intact
    assert (
        "No process of this run was running.\nrun_001 stays COMPLETED."
        in burning.critiqor("abort", "--stop", "run_001").stdout
    )


def test_abort_alone_leaves_it_running_and_says_so(burning: Burning) -> None:
    result = burning.critiqor("abort")
    assert f"OpenClaw (pid {burning.tree[0].pid}) is still running and is no longer recorded" in result.stderr
    assert len(burning.alive) == 3
    assert burning.critiqor("abort", "--stop", "run_001").returncode == ExitCode.OK
    assert burning.alive == []


def test_what_a_killed_monitor_left_behind_is_ended_as_well(burning: Burning) -> None:
    burning.monitor.kill()
    burning.monitor.wait()
    assert "is still running" in burning.critiqor("finalize", "--no-dashboard").stderr
    assert burning.critiqor("abort", "--stop", "run_001").returncode == ExitCode.OK
    assert burning.alive == []


def test_a_monitor_that_was_stopped_is_continued_to_hear_it(burning: Burning) -> None:
    burning.monitor.send_signal(signal.SIGSTOP)
    wait_until(lambda: psutil.Process(burning.monitor.pid).status() == psutil.STATUS_STOPPED)
    assert burning.critiqor("abort", "--stop").returncode == ExitCode.OK
    assert burning.alive == []
    assert burning.monitor.wait(PATIENCE_SECONDS) == 128 + signal.SIGTERM


def test_a_program_that_holds_a_session_without_launching_anything_is_left_alone(runs: Runs, tmp_path: Path) -> None:
    holder = start_python(
        "import subprocess, sys, time\n"
        "from critiqor.session import create_session\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time\\nwhile True: time.sleep(0.1)'])\n"
        f"create_session(runs_dir={str(runs.folder)!r})\n"
        "print(child.pid, flush=True)\n"
        "while True: time.sleep(0.1)\n"
    )
    try:
        assert holder.stdout is not None
        child = int(holder.stdout.readline())
        assert find_agent_processes("run_001", runs.folder) is None
        assert stop_agent("run_001", runs.folder) == 0
        assert holder.poll() is None
        assert psutil.Process(child).status() != psutil.STATUS_ZOMBIE
    finally:
        kill_tree(holder.pid)
        holder.communicate()


def test_an_owner_whose_pid_belongs_to_somebody_else_by_now_is_left_alone(burning: Burning, runs: Runs) -> None:
    path = runs.paths.run_path("run_001")
    record = json.loads(path.read_bytes())
    stranger = subprocess.Popen([sys.executable, "-c", "import time\nwhile True: time.sleep(0.1)"])
    try:
        record["owner"] = {**record["owner"], "pid": stranger.pid, "started_at": time.time() - 9999}
        path.write_text(json.dumps(record))
        assert burning.critiqor("abort", "--stop").returncode == ExitCode.OK
        assert stranger.poll() is None
        assert burning.alive == []
    finally:
        stranger.kill()
        stranger.wait()


def test_an_attached_session_is_stopped_with_the_service_manager(runs: Runs, tmp_path: Path) -> None:
    create_attached_session(runs_dir=runs.folder)
    with pytest.raises(UsageError, match="attached") as refused:
        stop_agent("run_001", runs.folder)
    assert "its service manager" in str(refused.value.fix)
    assert runs.status("run_001") == "MONITORING"
    result = run_critiqor("abort", "--runs-dir", runs.folder, home=tmp_path)
    assert "Stop it with its service manager" in result.stderr
