"""Playing scenarios on the embedded loop: one process under the same monitor, in about a second."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from critiqor.errors import CritiqorError
from critiqor.lab.runners.openclaw_runner import run_monitored
from critiqor.lab.runners.sandbox import Sandbox
from critiqor.lab.scenario import Clock, EmbeddedTask
from critiqor.recording.monitor import MonitorResult

TIMEOUT_SECONDS = 60.0
LOOP = "critiqor.agentloop"
HOST = "critiqor.lab.runners.embedded_host"
CONFIGURATION: dict[str, Any] = {"agents": {"defaults": {"retry": {"minDelayMs": 10, "maxDelayMs": 50}}}}
"""Failed model calls are retried immediately: there is no real provider to overload."""


def run_embedded(sandbox: Sandbox) -> MonitorResult:
    """Play the turns of a scenario on the embedded loop, under the monitor."""
    turns, world = sandbox.scenario.sent_turns, sandbox.scenario.world
    shell = sandbox.environment.get("SHELL", "")
    task = EmbeddedTask(turns=turns, tools=world.tools, helpers=world.helpers, shell=shell)
    if task == EmbeddedTask(turns=turns[:1]):
        module = LOOP
        arguments: tuple[str, ...] = ("agent", "--local", "--agent", "main", "--message", turns[0].message)
    else:
        file = sandbox.folder / "task.json"
        file.write_bytes(msgspec.json.encode(task))
        module, arguments = HOST, (str(file),)
    clock = sandbox.scenario.world.clock
    if clock is not None:
        return _run_with_clock(sandbox, clock, module, arguments)
    return run_monitored(sandbox, _command(module), arguments, TIMEOUT_SECONDS)


def _command(*module: str) -> str:
    return shlex.join((sys.executable, "-m", *module))


def _run_with_clock(sandbox: Sandbox, clock: Clock, module: str, arguments: tuple[str, ...]) -> MonitorResult:
    """Run with another clock. The monitor needs the same clock as the agent, so it gets its own process."""
    faster = ("critiqor.lab.runners.clock", str(clock.speed), str(time.time_ns()))
    runs = ("--runs-dir", str(sandbox.runs))
    limit = ("--timeout", str(sandbox.scenario.world.timeout_s or TIMEOUT_SECONDS))
    monitor = ("critiqor", "monitor", "openclaw", *runs, *limit, "--openclaw-command", _command(*faster, module))
    with sandbox.log.open("ab") as log:
        exit_codes = [
            subprocess.run(
                [sys.executable, "-m", *faster, *verb],
                env=sandbox.environment,
                cwd=sandbox.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                check=False,
            ).returncode
            for verb in ((*monitor, "--", *arguments), ("critiqor", "finalize", *runs, "--no-dashboard"))
        ]
    if exit_codes[1] != 0:
        raise CritiqorError("the run was not finalized", fix=f"see {sandbox.log}")
    return MonitorResult(_only_run(sandbox.runs), exit_codes[0], attached=True)


def _only_run(runs: Path) -> str:
    return next(path.stem for path in runs.glob("run_*.json"))
