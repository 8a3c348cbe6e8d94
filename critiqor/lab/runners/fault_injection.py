"""Faults injected into an agent's processes while they run: kills, freezes, full disks and lost records."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from critiqor.lab.scenario import Freeze, Kill, World
from critiqor.processes import agent_processes

_POLL_SECONDS = 0.01
_MAX_WAIT_SECONDS = 60.0
_TOOL_CALL = b'"event_type":"tool_call"'
_TOOL_RESULT = b'"event_type":"tool_result"'
_OK = b'"status":"ok"'


class FaultInjector:
    """Injects the faults of a scenario at the model requests that it names, before they are answered."""

    def __init__(self, runs_dir: Path, world: World) -> None:
        self._runs_dir = runs_dir
        self._world = world
        self._earlier_calls = 0
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Inject no more faults: the agent has ended."""
        self._stopped.set()

    def on_request(self, request: int) -> None:
        """Inject the faults of a request that is not answered yet."""
        kill, freeze, full = self._world.kill, self._world.freeze, self._world.full_disk
        if full is not None and request == full.request:
            self._limit_file_size(0)
        elif full is not None and request == full.until_request:
            self._limit_file_size(None)
        error = self._world.disk_error
        if error is not None and request == error.request:
            self._overwrite_records(error.records)
        if self._world.tampering is not None and request == self._world.tampering.request:
            self._rewrite_result()
        if freeze is not None and request == freeze.request:
            self._send(signal.SIGSTOP)
            self._start_thread(lambda: self._thaw(freeze))
        if kill is not None and request == kill.request:
            self._earlier_calls = self._recorded_calls()
            if kill.during == "model":
                self._kill(kill)

    def on_response(self, request: int) -> None:
        """Inject the faults that follow the response to a request."""
        kill = self._world.kill
        if kill is not None and kill.during == "tool" and request == kill.request:
            self._start_thread(lambda: self._kill_in_tool(kill))

    def _start_thread(self, action: Callable[[], None]) -> None:
        threading.Thread(target=action, daemon=True).start()

    def _kill_in_tool(self, kill: Kill) -> None:
        if self._wait_until(lambda: self._recorded_calls() > self._earlier_calls):
            self._kill(kill)

    def _kill(self, kill: Kill) -> None:
        if not self._stopped.wait(kill.after_s):
            self._send(signal.Signals[f"SIG{kill.signal}"])

    def _thaw(self, freeze: Freeze) -> None:
        self._stopped.wait(freeze.for_s)
        self._send(signal.SIGCONT)

    def _send(self, number: signal.Signals) -> None:
        for process in agent_processes(self._runs_dir):
            with contextlib.suppress(psutil.Error):
                process.send_signal(number)

    def _limit_file_size(self, size: int | None) -> None:
        for process in agent_processes(self._runs_dir):
            with contextlib.suppress(psutil.Error, OSError):
                hard = process.rlimit(psutil.RLIMIT_FSIZE)[1]
                process.rlimit(psutil.RLIMIT_FSIZE, (hard if size is None else size, hard))

    def _overwrite_records(self, records: int) -> None:
        for journal in self._runs_dir.glob("*/journal.jsonl"):
            with journal.open("r+b") as file:
                lines = file.read().splitlines(keepends=True)
                lost = b"".join(lines[-records:]).rstrip(b"\n")
                file.seek(sum(map(len, lines[:-records])))
                file.write(bytes(len(lost)))

    def _rewrite_result(self) -> None:
        for journal in self._runs_dir.glob("*/journal.jsonl"):
            data = journal.read_bytes()
            at = data.rfind(_OK, 0, data.rfind(_TOOL_RESULT) + 1_000)
            with journal.open("r+b") as file:
                file.seek(at)
                file.write(_OK.replace(b"ok", b"no"))

    def _recorded_calls(self) -> int:
        """Return the number of tool calls that the recorder has written."""
        try:
            return sum(journal.read_bytes().count(_TOOL_CALL) for journal in self._runs_dir.glob("*/journal.jsonl"))
        except OSError:
            return 0

    def _wait_until(self, condition: Callable[[], bool]) -> bool:
        until = time.monotonic() + _MAX_WAIT_SECONDS
        while not condition():
            if time.monotonic() > until or self._stopped.wait(_POLL_SECONDS):
                return False
        return True
