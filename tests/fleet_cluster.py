"""A Dask cluster of separate processes on this machine, whose workers can be killed."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from support import PATIENCE_SECONDS, environment


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


class Cluster:
    """A Dask scheduler and workers, each a process of its own without a nanny that would start it again."""

    def __init__(self, home: Path, ends: ExitStack) -> None:
        self._home = home
        self._ends = ends
        self.address = f"tcp://127.0.0.1:{free_port()}"
        self.scheduler = self._start("scheduler", "--port", self.address.rpartition(":")[2], "--no-show")
        self.workers: list[subprocess.Popen[bytes]] = []

    def add_worker(self) -> None:
        """Start a worker, which waits for the scheduler by itself."""
        options = ("--no-nanny", "--nthreads", "1", "--no-dashboard", "--host", "127.0.0.1")
        local = ("--local-directory", str(self._home / f"worker-{len(self.workers)}"))
        self.workers.append(self._start("worker", self.address, *options, *local))

    def wait_for_workers(self) -> None:
        """Wait until the scheduler knows all workers that were started."""
        deadline = time.monotonic() + 4 * PATIENCE_SECONDS
        while not self._knows_workers():
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def _knows_workers(self) -> bool:
        log = (self._home / "dask.log").read_text()
        return "Scheduler at:" in log and log.count("Register worker") >= len(self.workers)

    def _start(self, *arguments: str) -> subprocess.Popen[bytes]:
        options = ("--host", "127.0.0.1", "--no-dashboard") if arguments[0] == "scheduler" else ()
        log = self._ends.enter_context((self._home / "dask.log").open("ab"))
        process = subprocess.Popen(
            [sys.executable, "-m", "dask", *arguments, *options],
            env=environment(self._home, DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT="60s"),
            cwd=self._home,
            stdout=log,
            stderr=log,
        )
        self._ends.callback(process.wait)
        self._ends.callback(process.kill)
        return process
