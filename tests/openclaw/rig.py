"""A real OpenClaw in a home of its own, a scripted model on loopback, and Critiqor around them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pexpect
import psutil
import pyte
from openclaw.install import install

from critiqor.lab.model.scripted_model import ScriptedModel, Step, ToolUse
from critiqor.lab.runners.openclaw_home import write_openclaw_home

BIN = Path(sys.executable).parent
FINAL_WORDS = "All done, everything went well."
STEPS = (
    Step(text="I start.", tools=(ToolUse("call_0", "exec", {"command": "echo hello"}),)),
    Step(tools=(ToolUse("call_0", "read", {"path": "missing/file.txt"}),)),
    Step(tools=(ToolUse("call_2", "exec", {"command": "echo bad >&2; exit 3"}),)),
    Step(tools=(ToolUse("call_3", "frobnicate", {"x": 1}),)),
    Step(text=FINAL_WORDS),
)
"""Five model calls and four tools: one works, one fails, one exits non-zero, one does not exist; an id repeats."""
PATIENCE_SECONDS = 300.0
"""How long a test waits for what must happen, on a machine that does much else."""
LOCAL_TURN = ("agent", "--local", "--agent", "main", "--message", "do the thing")


def command_path(command: Path) -> str:
    """A PATH with this OpenClaw, and with the Node that it needs."""
    return os.pathsep.join((str(command.parent), str(BIN), os.environ["PATH"]))


class Rig:
    """One home, one runs folder, one version."""

    def __init__(
        self, folder: Path, version: str, model: ScriptedModel, extra: dict[str, Any] | None, context_window: int
    ) -> None:
        self.folder = folder
        self.version = version
        self.model = model
        self.runs = folder / "runs"
        self.command = install(version)
        self.environment = write_openclaw_home(folder / "home", model.base_url, extra, context_window=context_window)
        self.environment["PATH"] = command_path(self.command)
        self.configuration = folder / "home" / ".openclaw" / "openclaw.json"
        self.workspace = folder / "home" / ".openclaw" / "workspace"

    def critiqor(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a verb to its end."""
        return self._run(BIN / "critiqor", *arguments)

    def monitor(self, *arguments: str, options: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
        return self.critiqor("monitor", "openclaw", *options, "--", *arguments)

    def start_monitor(self, *arguments: str, options: Sequence[str] = ()) -> subprocess.Popen[bytes]:
        """Start a monitored OpenClaw and leave it running; what both say goes to monitor.log."""
        command = [str(BIN / "critiqor"), "monitor", "openclaw", *options, "--", *arguments]
        with (self.folder / "monitor.log").open("wb") as log:
            return subprocess.Popen(
                command, env=self.environment, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def openclaw(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """An OpenClaw of the user's own, that Critiqor knows nothing of."""
        return self._run(self.command, *arguments)

    def _run(self, command: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(command), *arguments],
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            stdin=subprocess.DEVNULL,
        )

    def openclaw_processes(self) -> list[psutil.Process]:
        """Every process that the monitored OpenClaw is or has started."""
        found = []
        for process in psutil.process_iter():
            try:
                environment = process.environ()
            except (psutil.Error, OSError):
                continue
            if environment.get("CRITIQOR_RUNS_DIR") == str(self.runs):
                found.append(process)
        return found

    def finalize(self) -> dict[str, Any]:
        done = self.critiqor("finalize", "--no-dashboard", "--json")
        assert done.returncode == 0, done.stderr
        answered: dict[str, Any] = json.loads(done.stdout)["data"]
        return answered

    def evidence(self, run_id: str = "run_001") -> dict[str, Any]:
        document: dict[str, Any] = json.loads((self.runs / run_id / "session.json").read_text())
        return document

    def events(self, kind: str, run_id: str = "run_001") -> list[dict[str, Any]]:
        return [event for event in self.evidence(run_id)["events"] if event["event_type"] == kind]


@contextmanager
def rig(
    folder: Path,
    version: str,
    steps: Sequence[Step] = STEPS,
    extra: dict[str, Any] | None = None,
    *,
    context_window: int = 128_000,
) -> Iterator[Rig]:
    """A rig whose model plays `steps`; the user's configuration must be the same afterwards, byte for byte."""
    with ScriptedModel(steps) as model:
        made = Rig(folder, version, model, extra, context_window)
        before = made.configuration.read_bytes()
        try:
            yield made
        except BaseException:
            # A gateway of a test that failed would go on for ever.
            for process in made.openclaw_processes():
                with suppress(psutil.Error):
                    process.kill()
            raise
        assert made.configuration.read_bytes() == before


def wait_until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.2)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Gateway:
    """A monitored gateway, and clients of it."""

    def __init__(self, made: Rig, options: Sequence[str] = ()) -> None:
        self.rig = made
        port = str(free_port())
        made.environment |= {"OPENCLAW_GATEWAY_PORT": port, "OPENCLAW_GATEWAY_TOKEN": "rig"}
        arguments = ("gateway", "run", "--port", port, "--auth", "token", "--token", "rig")
        self.monitor = made.start_monitor(*arguments, options=options)
        self._port = int(port)
        wait_until(self._is_up)

    def _is_up(self) -> bool:
        assert self.monitor.poll() is None, (self.rig.folder / "monitor.log").read_text()
        try:
            socket.create_connection(("127.0.0.1", self._port), 1).close()
        except OSError:
            return False
        return True

    def turn(self, message: str = "do the thing") -> None:
        done = self.rig.openclaw("agent", "--agent", "main", "--message", message)
        assert done.returncode == 0, done.stderr

    def stop(self) -> int:
        self.monitor.terminate()
        return self.monitor.wait(PATIENCE_SECONDS)


class TerminalUi:
    """The terminal UI of OpenClaw under the monitor, and what its screen shows."""

    def __init__(self, made: Rig) -> None:
        self._child = pexpect.spawn(
            str(BIN / "critiqor"),
            ["monitor", "openclaw"],
            env=made.environment,
            cwd=str(made.folder),
            dimensions=(40, 120),
            encoding="utf-8",
        )
        self._screen = pyte.Screen(120, 40)
        self._stream = pyte.Stream(self._screen)
        self.wait_for("| idle")

    def wait_for(self, text: str) -> None:
        wait_until(lambda: self._shows(text))

    def type(self, message: str, until: str) -> None:
        """Type a line, and wait for words on the screen after it was sent."""
        self.send(message, message)
        self.send("\r", until)

    def send(self, keys: str, until: str | None = None) -> None:
        self._child.send(keys)
        if until is not None:
            self.wait_for(until)

    def leave(self) -> str:
        """End the terminal UI. Return what its screen showed last."""
        self.wait_for("| idle")
        seen = "\n".join(self._screen.display)
        self._child.send("/exit\r")
        self._child.expect(pexpect.EOF, timeout=PATIENCE_SECONDS)
        self._child.close()
        assert self._child.exitstatus == 0
        return seen

    def _shows(self, text: str) -> bool:
        try:
            self._stream.feed(self._child.read_nonblocking(65536, timeout=0.2))
        except pexpect.TIMEOUT:
            pass
        except pexpect.EOF:
            raise AssertionError("the terminal UI ended: " + "\n".join(self._screen.display)) from None
        return any(text in line for line in self._screen.display)


def chat(made: Rig, message: str, until: str) -> str:
    """Type one message into the terminal UI under the monitor, wait for words on the screen, and leave it again."""
    terminal = TerminalUi(made)
    terminal.type(message, until)
    return terminal.leave()
