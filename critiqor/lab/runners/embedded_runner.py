"""Scenarios on the embedded loop: a process of its own under the same monitor, in about a second."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from critiqor.errors import CritiqorError
from critiqor.lab.runners.openclaw_runner import record
from critiqor.lab.runners.sandbox import Sandbox
from critiqor.lab.scenario import Clock, Talk
from critiqor.recording.monitor import MonitorResult

TIMEOUT_SECONDS = 60.0
LOOP = "critiqor.agentloop"
HOST = "critiqor.lab.runners.embedded_host"
CONFIGURATION: dict[str, Any] = {"agents": {"defaults": {"retry": {"minDelayMs": 10, "maxDelayMs": 50}}}}
"""Failed model calls are tried again at once: nobody's provider is spared by a wait."""


def perform(stage: Sandbox) -> MonitorResult:
    """Play the turns of a scenario under the monitor, to their end."""
    told, world = stage.scenario.told, stage.scenario.world
    talk = Talk(turns=told, tools=world.tools, helpers=world.helpers, shell=stage.environment.get("SHELL", ""))
    if talk == Talk(turns=told[:1]):
        module = LOOP
        arguments: tuple[str, ...] = ("agent", "--local", "--agent", "main", "--message", told[0].message)
    else:
        file = stage.folder / "talk.json"
        file.write_bytes(msgspec.json.encode(talk))
        module, arguments = HOST, (str(file),)
    clock = stage.scenario.world.clock
    if clock is not None:
        return _by_another_clock(stage, clock, module, arguments)
    return record(stage, _command(module), arguments, TIMEOUT_SECONDS)


def _command(*module: str) -> str:
    return shlex.join((sys.executable, "-m", *module))


def _by_another_clock(stage: Sandbox, clock: Clock, module: str, arguments: tuple[str, ...]) -> MonitorResult:
    """The monitor has to live by the same clock as the agent, and so it is a process of its own."""
    faster = ("critiqor.lab.runners.clock", str(clock.speed), str(time.time_ns()))
    runs = ("--runs-dir", str(stage.runs))
    limit = ("--timeout", str(stage.scenario.world.timeout_s or TIMEOUT_SECONDS))
    monitor = ("critiqor", "monitor", "openclaw", *runs, *limit, "--openclaw-command", _command(*faster, module))
    with stage.log.open("ab") as log:
        exit_codes = [
            subprocess.run(
                [sys.executable, "-m", *faster, *verb],
                env=stage.environment,
                cwd=stage.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                check=False,
            ).returncode
            for verb in ((*monitor, "--", *arguments), ("critiqor", "finalize", *runs, "--no-dashboard"))
        ]
    if exit_codes[1] != 0:
        raise CritiqorError("the run could not be finalized", fix=f"see {stage.log}")
    return MonitorResult(_only_run(stage.runs), exit_codes[0], attached=True)


def _only_run(runs: Path) -> str:
    return next(path.stem for path in runs.glob("run_*.json"))
