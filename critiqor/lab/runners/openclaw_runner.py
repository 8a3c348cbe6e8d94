"""Playing scenarios on a real OpenClaw: a single turn in a local process, several turns and subagents on a gateway.

The home folder is temporary; of the user's OpenClaw only the program is used.
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
from critiqor.lab.runners.sandbox import Sandbox
from critiqor.lab.scenario import Turn, session_key_of
from critiqor.openclaw import find_openclaw
from critiqor.processes import agent_processes
from critiqor.recording.monitor import MonitorOptions, MonitorResult, monitor_openclaw

TIMEOUT_SECONDS = 180.0
QUIET_SECONDS = 5.0
_TOKEN = "lab"


def run_openclaw(sandbox: Sandbox, openclaw_command: str) -> MonitorResult:
    """Play the turns of a scenario on a real OpenClaw, under the monitor."""
    if len(sandbox.scenario.turns) == 1:
        arguments = ("agent", "--local", "--agent", "main", "--message", sandbox.scenario.turns[0].message)
        return run_monitored(sandbox, openclaw_command, arguments, TIMEOUT_SECONDS)
    return _Gateway(sandbox, openclaw_command).play()


def run_monitored(sandbox: Sandbox, command: str, arguments: tuple[str, ...], timeout: float) -> MonitorResult:
    """Run OpenClaw, or a command in its place, under the monitor; its output goes to the log of the sandbox."""
    options = MonitorOptions(
        runs_dir=sandbox.runs,
        openclaw_command=command,
        arguments=arguments,
        cwd=sandbox.folder,
        timeout=sandbox.scenario.world.timeout_s or timeout,
        live=False,  # it is diagnosed at once, when it has ended
    )
    with sandbox.log.open("ab") as log:
        return monitor_openclaw(options, say=lambda _: None, environment=sandbox.environment, output=log)


class _Gateway:
    """A monitored gateway, and clients that send one message each."""

    def __init__(self, sandbox: Sandbox, command: str) -> None:
        self._sandbox = sandbox
        self._command = command
        self._port = _free_port()
        address = {"OPENCLAW_GATEWAY_PORT": str(self._port), "OPENCLAW_GATEWAY_TOKEN": _TOKEN}
        self._client_environment = {**sandbox.environment, **address}
        installation = find_openclaw(command, sandbox.environment)
        self._client = [installation.command, *installation.arguments]

    def play(self) -> MonitorResult:
        ended: list[MonitorResult] = []
        arguments = ("gateway", "run", "--port", str(self._port), "--auth", "token", "--token", _TOKEN)
        gateway = threading.Thread(
            target=lambda: ended.append(run_monitored(self._sandbox, self._command, arguments, TIMEOUT_SECONDS))
        )
        gateway.start()
        try:
            _wait_until(lambda: self._is_listening() or not gateway.is_alive())
            sessions: dict[str, list[Turn]] = defaultdict(list)
            for turn in self._sandbox.scenario.sent_turns:
                sessions[turn.session].append(turn)
            clients = [threading.Thread(target=self._run_session, args=(turns,)) for turns in sessions.values()]
            for client in clients:
                client.start()
            for client in clients:
                client.join()
            self._wait_for_subagents()
        finally:
            self._stop()
            gateway.join()
        if not ended:
            raise CritiqorError("the gateway was not recorded", fix="critiqor doctor --probe")
        return ended[0]

    def _run_session(self, turns: list[Turn]) -> None:
        with self._sandbox.log.open("ab") as log:
            for turn in turns:
                where = ("--agent", "main", "--session-key", session_key_of(turn.session))
                with contextlib.suppress(subprocess.TimeoutExpired):
                    subprocess.run(
                        [*self._client, "agent", *where, "--message", turn.message],
                        env=self._client_environment,
                        cwd=self._sandbox.folder,
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        timeout=TIMEOUT_SECONDS,
                        check=False,
                    )

    def _is_listening(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self._port), 1).close()
        except OSError:
            return False
        return True

    def _wait_for_subagents(self) -> None:
        """Wait until nothing more is recorded: subagents can continue after their parent has answered."""
        if not any(turn.spawned for turn in self._sandbox.scenario.turns):
            return
        size, until = -1, time.monotonic() + TIMEOUT_SECONDS
        while (now := self._recorded_bytes()) != size and time.monotonic() < until:
            size = now
            time.sleep(QUIET_SECONDS)

    def _recorded_bytes(self) -> int:
        return sum(journal.stat().st_size for journal in self._sandbox.runs.glob("*/journal.jsonl"))

    def _stop(self) -> None:
        for process in agent_processes(self._sandbox.runs):
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
