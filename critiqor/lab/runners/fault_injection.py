"""What happens to an agent's processes while it works: a kill, a disk without room, a machine without time for them."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from critiqor.lab.scenario import Freeze, Kill, World

_POLL_SECONDS = 0.01
_PATIENCE_SECONDS = 60.0
_CALL = b'"event_type":"tool_call"'


def agent_processes(folder: Path) -> list[psutil.Process]:
    """Every process of an agent that is recorded into this folder or one below it, as its environment tells."""
    found = []
    for process in psutil.process_iter():
        try:
            runs_dir = process.environ().get("CRITIQOR_RUNS_DIR")
        except (psutil.Error, OSError):
            continue
        if runs_dir is not None and Path(runs_dir).is_relative_to(folder):
            found.append(process)
    return found


def end_agents(folder: Path) -> None:
    """End whatever is still recorded below this folder."""
    for process in agent_processes(folder):
        with contextlib.suppress(psutil.Error):
            process.kill()


class FaultInjection:
    """Watches the requests to a model, and disturbs the agent at the one that was named, before that is answered."""

    def __init__(self, runs_dir: Path, world: World) -> None:
        self._runs_dir = runs_dir
        self._world = world
        self._calls_before = 0
        self._over = threading.Event()

    def end(self) -> None:
        """The agent has ended, and nothing more is to be done to it."""
        self._over.set()

    def asked(self, request: int) -> None:
        """The model was asked, and has not answered yet."""
        kill, freeze, full = self._world.kill, self._world.freeze, self._world.full_disk
        if full is not None and request == full.request:
            self._limit_files(0)
        elif full is not None and request == full.until_request:
            self._limit_files(None)
        error = self._world.disk_error
        if error is not None and request == error.request:
            self._wipe(error.records)
        if freeze is not None and request == freeze.request:
            self._send(signal.SIGSTOP)
            self._do(lambda: self._thaw(freeze))
        if kill is not None and request == kill.request:
            self._calls_before = self._calls_seen()
            if kill.during == "model":
                self._kill(kill)

    def answered(self, request: int) -> None:
        """The model has answered."""
        kill = self._world.kill
        if kill is not None and kill.during == "tool" and request == kill.request:
            self._do(lambda: self._kill_in_tool(kill))

    def _do(self, deed: Callable[[], None]) -> None:
        threading.Thread(target=deed, daemon=True).start()

    def _kill_in_tool(self, kill: Kill) -> None:
        if self._wait_until(lambda: self._calls_seen() > self._calls_before):
            self._kill(kill)

    def _kill(self, kill: Kill) -> None:
        if not self._over.wait(kill.after_s):
            self._send(signal.Signals[f"SIG{kill.signal}"])

    def _thaw(self, freeze: Freeze) -> None:
        self._over.wait(freeze.for_s)
        self._send(signal.SIGCONT)

    def _send(self, number: signal.Signals) -> None:
        for process in agent_processes(self._runs_dir):
            with contextlib.suppress(psutil.Error):
                process.send_signal(number)

    def _limit_files(self, size: int | None) -> None:
        for process in agent_processes(self._runs_dir):
            with contextlib.suppress(psutil.Error, OSError):
                hard = process.rlimit(psutil.RLIMIT_FSIZE)[1]
                process.rlimit(psutil.RLIMIT_FSIZE, (hard if size is None else size, hard))

    def _wipe(self, records: int) -> None:
        for journal in self._runs_dir.glob("*/journal.jsonl"):
            with journal.open("r+b") as file:
                lines = file.read().splitlines(keepends=True)
                lost = b"".join(lines[-records:]).rstrip(b"\n")
                file.seek(sum(map(len, lines[:-records])))
                file.write(bytes(len(lost)))

    def _calls_seen(self) -> int:
        """Tool calls that the recorder has written down."""
        try:
            return sum(journal.read_bytes().count(_CALL) for journal in self._runs_dir.glob("*/journal.jsonl"))
        except OSError:
            return 0

    def _wait_until(self, condition: Callable[[], bool]) -> bool:
        until = time.monotonic() + _PATIENCE_SECONDS
        while not condition():
            if time.monotonic() > until or self._over.wait(_POLL_SECONDS):
                return False
        return True
