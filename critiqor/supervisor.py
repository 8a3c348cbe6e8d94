"""A child process and everything it starts, owned from start to end.

The child gets its own process group, made the foreground one of the terminal, as a shell does it: Ctrl-C reaches the
child and not us, Ctrl-Z stops both, and a full-screen program finds the terminal as it would without us. Signals that
are sent to us are passed on. The tree is known by descent and by a mark in the environment, because processes detach
themselves and retitle themselves; a process is its pid and its start time together.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import IO, Literal, NamedTuple

import psutil

from critiqor.errors import ExitCode

POLL_SECONDS = 0.05
GRACE_SECONDS = 8.0
"""Between TERM and KILL. A gateway gives its plugins two seconds and drains what it has to deliver."""
PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)

EndReason = Literal["exited", "timeout", "interrupted", "signalled"]


class ChildEnd(NamedTuple):
    """How the child ended."""

    reason: EndReason
    exit_code: int
    """As a shell would report it: 128 plus the number of the signal for a child that died of one."""
    left_running: int
    """Processes of the tree that outlived the child."""


class Supervisor:
    """Launches one command and stays until it has ended."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        mark: Mapping[str, str],
        cwd: Path | None = None,
        output: IO[bytes] | None = None,
    ) -> None:
        self._command = list(command)
        self._environment = dict(environment)
        self._mark = mark.items()
        """Variables by which every process of the tree can be known."""
        self._cwd = cwd
        self._output = output
        self._terminal = _foreground_terminal() if output is None else None
        self._received: signal.Signals | None = None

    def start(self) -> int:
        """Launch the child; returns its pid. Raises OSError when it cannot be launched."""
        self._child = subprocess.Popen(
            self._command,
            env=self._environment,
            cwd=self._cwd,
            stdin=subprocess.DEVNULL if self._output else None,
            stdout=self._output,
            stderr=subprocess.STDOUT if self._output else None,
            process_group=0,
            # Both sides set the foreground group, so that neither has to wait for the other.
            preexec_fn=self._take_terminal if self._terminal is not None else None,
        )
        self._give_terminal()
        return self._child.pid

    def wait(self, timeout: float | None = None) -> ChildEnd:
        """Stay until the child has ended, or end its tree after `timeout` seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        previous = {number: signal.signal(number, self._pass_on) for number in PASSED_ON if _in_main_thread()}
        try:
            status = self._wait_until(deadline)
            if status is None:
                self.end_tree()
                return ChildEnd("timeout", ExitCode.TIMED_OUT, 0)
            return self._end(status)
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)
            self._return_terminal()

    def end_tree(self, grace: float = GRACE_SECONDS) -> None:
        """End every process of the tree: TERM, then KILL for whatever is left after the grace."""
        for number, seconds in ((signal.SIGTERM, grace), (signal.SIGKILL, grace)):
            processes = self.tree()
            for process in processes:
                with contextlib.suppress(psutil.Error):
                    process.send_signal(number)
            until = time.monotonic() + seconds
            while time.monotonic() < until and (self._child.poll() is None or _alive(processes)):
                time.sleep(POLL_SECONDS)
            if not self.tree():
                break
        self._child.wait()

    def tree(self) -> list[psutil.Process]:
        """The living processes of the tree, the child among them."""
        found: dict[int, psutil.Process] = {}
        with contextlib.suppress(psutil.Error):
            root = psutil.Process(self._child.pid)
            for process in (root, *root.children(recursive=True)):
                found[process.pid] = process
        for process in psutil.process_iter():
            if process.pid not in found and process.pid != os.getpid() and self._is_marked(process):
                found[process.pid] = process
        return _alive(found.values())

    def _is_marked(self, process: psutil.Process) -> bool:
        try:
            return process.environ().items() >= self._mark
        except (psutil.Error, OSError):
            return False

    def _wait_until(self, deadline: float | None) -> int | None:
        while True:
            pid, status = os.waitpid(self._child.pid, os.WNOHANG | os.WUNTRACED)
            if pid and os.WIFSTOPPED(status):
                self._stop_with_child()
            elif pid:
                self._child.returncode = os.waitstatus_to_exitcode(status)
                return self._child.returncode
            elif deadline is not None and time.monotonic() >= deadline:
                return None
            else:
                time.sleep(POLL_SECONDS)

    def _end(self, returncode: int) -> ChildEnd:
        exit_code = 128 - returncode if returncode < 0 else returncode
        if returncode < 0 or self._received is not None:
            # Whoever is left has lost its parent: nobody would ever end it.
            self.end_tree()
            left = 0
        else:
            left = len(self.tree())
        if self._received is signal.SIGINT or exit_code == ExitCode.INTERRUPTED:
            return ChildEnd("interrupted", ExitCode.INTERRUPTED, left)
        if self._received is not None:
            return ChildEnd("signalled", 128 + self._received, left)
        return ChildEnd("signalled" if returncode < 0 else "exited", exit_code, left)

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        self._received = signal.Signals(number)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._child.pid, number)

    def _stop_with_child(self) -> None:
        """The child was stopped from the keyboard: stop as well, so that the shell gets its terminal back."""
        self._return_terminal()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._give_terminal()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._child.pid, signal.SIGCONT)

    def _take_terminal(self) -> None:
        _set_foreground(self._terminal, os.getpid())

    def _give_terminal(self) -> None:
        _set_foreground(self._terminal, self._child.pid)

    def _return_terminal(self) -> None:
        _set_foreground(self._terminal, os.getpgrp())


def _foreground_terminal() -> int | None:
    """The terminal on standard input, if this process is in its foreground."""
    try:
        descriptor = sys.stdin.fileno()
        return descriptor if os.isatty(descriptor) and os.tcgetpgrp(descriptor) == os.getpgrp() else None
    except (OSError, ValueError, AttributeError):
        return None


def _set_foreground(terminal: int | None, group: int) -> None:
    if terminal is None:
        return
    # A background process that changes the foreground group is stopped by TTOU unless it ignores it.
    previous = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        os.tcsetpgrp(terminal, group)
    signal.signal(signal.SIGTTOU, previous)


def _in_main_thread() -> bool:
    import threading

    return threading.current_thread() is threading.main_thread()


def _alive(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    living = []
    for process in processes:
        with contextlib.suppress(psutil.Error):
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                living.append(process)
    return living
