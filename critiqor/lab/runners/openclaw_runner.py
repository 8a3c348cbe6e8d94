"""Scenarios on a real OpenClaw: one turn in a process of its own, several and subagents by a gateway and its clients.

The home is the lab's own; nothing of the user's OpenClaw is read or written but its program.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Callable

import psutil

from critiqor.errors import CritiqorError
from critiqor.lab.runners.fault_injection import agent_processes
from critiqor.lab.runners.sandbox import Sandbox
from critiqor.lab.scenario import Turn
from critiqor.openclaw import find_openclaw
from critiqor.recording.monitor import MonitorOptions, MonitorResult, monitor_openclaw

TIMEOUT_SECONDS = 180.0
QUIET_SECONDS = 5.0
_TOKEN = "lab"


def perform(stage: Sandbox, openclaw_command: str) -> MonitorResult:
    """Play the turns of a scenario under the monitor, to their end."""
    if len(stage.scenario.turns) == 1:
        arguments = ("agent", "--local", "--agent", "main", "--message", stage.scenario.turns[0].message)
        return record(stage, openclaw_command, arguments, TIMEOUT_SECONDS)
    return _Gateway(stage, openclaw_command).perform()


def record(stage: Sandbox, command: str, arguments: tuple[str, ...], timeout: float) -> MonitorResult:
    """Launch something under the monitor; what it says goes to the log of the stage."""
    options = MonitorOptions(
        runs_dir=stage.runs,
        openclaw_command=command,
        arguments=arguments,
        cwd=stage.folder,
        timeout=stage.scenario.world.timeout_s or timeout,
    )
    with stage.log.open("ab") as log:
        return monitor_openclaw(options, say=lambda _: None, environment=stage.environment, output=log)


class _Gateway:
    """A monitored gateway, and clients that each say one thing."""

    def __init__(self, stage: Sandbox, command: str) -> None:
        self._stage = stage
        self._command = command
        self._port = _free_port()
        address = {"OPENCLAW_GATEWAY_PORT": str(self._port), "OPENCLAW_GATEWAY_TOKEN": _TOKEN}
        self._client_environment = {**stage.environment, **address}
        installation = find_openclaw(command, stage.environment)
        self._client = [installation.command, *installation.arguments]

    def perform(self) -> MonitorResult:
        ended: list[MonitorResult] = []
        arguments = ("gateway", "run", "--port", str(self._port), "--auth", "token", "--token", _TOKEN)
        gateway = threading.Thread(
            target=lambda: ended.append(record(self._stage, self._command, arguments, TIMEOUT_SECONDS))
        )
        gateway.start()
        try:
            _wait_until(lambda: self._is_up() or not gateway.is_alive())
            sessions: dict[str, list[Turn]] = defaultdict(list)
            for turn in self._stage.scenario.told:
                sessions[turn.session].append(turn)
            clients = [threading.Thread(target=self._converse, args=(turns,)) for turns in sessions.values()]
            for client in clients:
                client.start()
            for client in clients:
                client.join()
            self._settle()
        finally:
            self._stop()
            gateway.join()
        if not ended:
            raise CritiqorError("the gateway could not be recorded", fix="critiqor doctor --probe")
        return ended[0]

    def _converse(self, turns: list[Turn]) -> None:
        with self._stage.log.open("ab") as log:
            for turn in turns:
                where = ("--agent", "main", "--session-key", f"agent:main:{turn.session}")
                with contextlib.suppress(subprocess.TimeoutExpired):
                    subprocess.run(
                        [*self._client, "agent", *where, "--message", turn.message],
                        env=self._client_environment,
                        cwd=self._stage.folder,
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        timeout=TIMEOUT_SECONDS,
                        check=False,
                    )

    def _is_up(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self._port), 1).close()
        except OSError:
            return False
        return True

    def _settle(self) -> None:
        """Subagents go on when those who started them have answered: wait until nothing more is recorded."""
        if not any(turn.spawned for turn in self._stage.scenario.turns):
            return
        size, until = -1, time.monotonic() + TIMEOUT_SECONDS
        while (now := self._recorded()) != size and time.monotonic() < until:
            size = now
            time.sleep(QUIET_SECONDS)

    def _recorded(self) -> int:
        return sum(journal.stat().st_size for journal in self._stage.runs.glob("*/journal.jsonl"))

    def _stop(self) -> None:
        for process in agent_processes(self._stage.runs):
            with contextlib.suppress(psutil.Error):
                process.terminate()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + TIMEOUT_SECONDS
    while not condition() and time.monotonic() < until:
        time.sleep(0.1)
