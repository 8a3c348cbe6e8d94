"""The verb `profile` on a running, deeply profiled run: real Node processes, real signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from support import PATIENCE_SECONDS, STANDIN, Cli, Runs, critiqor_command, environment, kill_tree, script, wait_until

from critiqor.errors import CritiqorError
from critiqor.recording import profiling
from critiqor.recording.profiling import request_artifacts
from critiqor.timeline.profiles import summarise_profiles

STARTS_CHILDREN = """#!/usr/bin/env node
import fs from "node:fs";
import { spawn } from "node:child_process";
const shell = spawn("/bin/sh", ["-c", "sleep 600; true"], { stdio: "ignore" });
const wait = "setInterval(() => {}, 1000); require('node:fs').writeFileSync(process.argv[1], '')";
const unprofiled = spawn(process.execPath, ["-e", wait, process.argv[2] + ".child"], {
  stdio: "ignore",
  env: { ...process.env, NODE_OPTIONS: "" },
});
// Node samples one allocation in about half a megabyte: with less than this, a heap profile can be empty.
globalThis.held = Array.from({ length: 300_000 }, (_, number) => ({ number, text: `held ${number}` }));
process.title = "openclaw-gateway";
process.on("SIGTERM", () => process.exit(0));
setInterval(() => {}, 1000);
const pids = { node: process.pid, shell: shell.pid, unprofiled: unprofiled.pid };
fs.writeFileSync(process.argv[2], JSON.stringify(pids));
"""


class Running:
    """A monitored program that runs until it is stopped."""

    def __init__(self, folder: Path, runs: Runs) -> None:
        self.runs = runs
        self.home = folder / "home"
        self.home.mkdir()
        self.log = folder / "monitor.log"
        self._monitor: subprocess.Popen[bytes] | None = None

    def start(self, command: Path, *arguments: str, options: tuple[str, ...] = ("--deep-profile",)) -> None:
        typed: tuple[str | Path, ...] = ("--runs-dir", self.runs.folder, "--openclaw-command", command)
        with self.log.open("wb") as log:
            self._monitor = subprocess.Popen(
                critiqor_command("monitor", "openclaw", *typed, *options, "--", *arguments),
                env=environment(self.home),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def is_up(self) -> bool:
        return self._monitor is not None and self._monitor.poll() is None

    def stop(self) -> None:
        if self._monitor is not None and self.is_up():
            self._monitor.terminate()
            self._monitor.wait(PATIENCE_SECONDS)

    def kill(self) -> None:
        if self._monitor is not None and self.is_up():
            kill_tree(self._monitor.pid)
            self._monitor.wait(PATIENCE_SECONDS)


@pytest.fixture
def running(tmp_path: Path, runs: Runs) -> Iterator[Running]:
    running = Running(tmp_path, runs)
    yield running
    running.kill()


@pytest.fixture
def family(tmp_path: Path, running: Running) -> Iterator[dict[str, psutil.Process]]:
    """A Node that calls itself openclaw-gateway, with a shell and a Node without profiling below it."""
    file = tmp_path / "pids.json"
    running.start(script(tmp_path / "openclaw.mjs", STARTS_CHILDREN), str(file))
    wait_until(lambda: file.exists() and file.read_text() and Path(f"{file}.child").exists())
    pids: dict[str, int] = json.loads(file.read_text())
    processes = {name: psutil.Process(pid) for name, pid in pids.items()}
    yield processes
    for process in processes.values():
        if process.is_running():
            kill_tree(process.pid)


def profiles_in(runs: Runs) -> set[str]:
    return {path.name for path in runs.paths.profiles_folder("run_001").iterdir()}


def test_report_of_a_running_stand_in_appears_and_is_summarised(cli: Cli, runs: Runs, running: Running) -> None:
    running.start(STANDIN, "agent", "--hang")
    wait_until(lambda: b"all tests pass" in running.log.read_bytes())
    answer = cli("profile", "run_001", "--report")
    assert answer.code == 0
    [file] = profiles_in(runs)
    assert file in answer.out
    assert json.loads((runs.paths.profiles_folder("run_001") / file).read_text())["header"]["event"] == "SIGUSR1"
    [report] = cli("profile", "run_001", "--json").data["reports"]
    assert report["trigger"] == "Signal"
    assert report["heap_used_bytes"] > 1_000_000
    assert running.is_up()


@pytest.mark.parametrize(("option", "kind"), [("--report", "diagnostic_report"), ("--heap-snapshot", "heap_snapshot")])
def test_only_the_profiled_node_is_asked_and_every_other_process_lives_on(
    cli: Cli, runs: Runs, running: Running, family: dict[str, psutil.Process], option: str, kind: str
) -> None:
    asked: dict[str, Any] = cli("profile", "run_001", option, "--json").data
    assert asked["kind"] == kind
    assert asked["asked"] == [family["node"].pid]
    assert asked["silent"] == []
    [appeared] = asked["appeared"]
    assert profiles_in(runs) == {appeared["file"]}
    assert (runs.paths.profiles_folder("run_001") / appeared["file"]).stat().st_size == appeared["bytes"]
    # The shell and what it waits for, the Node without profiling, and whatever stands between us and the first Node.
    assert asked["left_alone"] >= 3
    assert all(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in family.values())
    assert running.is_up()
    assert b"Debugger" not in running.log.read_bytes()


def test_second_request_tells_of_the_new_file_alone(cli: Cli, family: dict[str, psutil.Process]) -> None:
    files = [cli("profile", "run_001", "--report", "--json").data["appeared"][0]["file"] for _ in range(2)]
    assert files[0] != files[1]


def test_node_that_does_not_answer_is_said_to_have_written_nothing(
    runs: Runs, family: dict[str, psutil.Process]
) -> None:
    said: list[str] = []
    family["node"].suspend()
    try:
        with pytest.raises(CritiqorError, match="wrote a heap snapshot within") as error:
            request_artifacts("run_001", "heap_snapshot", runs.folder, said.append, timeout=0.5)
    finally:
        family["node"].resume()
    assert error.value.fix
    assert str(family["node"].pid) in said[0]


def test_run_whose_node_processes_are_gone_has_nobody_to_ask(
    cli: Cli, running: Running, family: dict[str, psutil.Process]
) -> None:
    running.stop()
    answer = cli("profile", "run_001", "--report")
    assert answer.code == 1
    assert "not running" in answer.err


def test_running_run_without_deep_profile_is_not_signalled(cli: Cli, running: Running) -> None:
    running.start(STANDIN, "agent", "--hang", options=())
    wait_until(lambda: b"all tests pass" in running.log.read_bytes())
    answer = cli("profile", "run_001", "--heap-snapshot", "--json")
    assert answer.code == 1
    assert answer.error["fix"] == "critiqor monitor openclaw --deep-profile"
    assert running.is_up()


def test_run_in_which_only_other_programs_are_left_says_that_none_can_be_asked(
    tmp_path: Path, cli: Cli, running: Running
) -> None:
    running.start(script(tmp_path / "openclaw", "#!/bin/sh\necho up\nexec sleep 600\n"))
    wait_until(lambda: b"up" in running.log.read_bytes().split(b"\n"))
    answer = cli("profile", "run_001", "--report")
    assert answer.code == 1
    assert "is a Node process that accepts this request" in answer.err
    assert running.is_up()


def test_process_without_handlers_does_not_wait_for_the_signals() -> None:
    with subprocess.Popen(["sleep", "600"]) as sleeper:
        assert not profiling._has_handlers(sleeper.pid)
        sleeper.kill()
    assert not profiling._has_handlers(sleeper.pid)


def test_process_that_waits_for_both_signals_is_known() -> None:
    before = [signal.signal(number, lambda *_: None) for number in (signal.SIGUSR1, signal.SIGUSR2)]
    try:
        assert profiling._has_handlers(os.getpid())
        signal.signal(signal.SIGUSR2, signal.SIG_DFL)
        assert not profiling._has_handlers(os.getpid())
    finally:
        for number, handler in zip((signal.SIGUSR1, signal.SIGUSR2), before, strict=True):
            signal.signal(number, handler)


def test_profiles_that_a_run_wrote_at_its_end_are_summarised(
    runs: Runs, running: Running, family: dict[str, psutil.Process]
) -> None:
    family["node"].terminate()
    wait_until(lambda: not running.is_up())
    summary = summarise_profiles(runs.paths.profiles_folder("run_001"))
    assert [thread.pid for thread in summary.threads] == [family["node"].pid]
    assert summary.held_bytes > 0
    assert summary.trace_events > 0
