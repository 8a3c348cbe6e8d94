"""A child process and everything it starts, owned from start to end.

The child gets its own process group, made the foreground one of the terminal, as a shell does it: Ctrl-C reaches the
child and not us, Ctrl-Z stops both, and a full-screen program finds the terminal as it would without us. In the
background the terminal is left alone. Signals that are sent to us are passed on, unless we were started with the order
to ignore them, as `nohup` does. The tree is known by descent and by a mark in the environment, because processes detach
themselves and retitle themselves; a process is its pid and its start time together.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import IO, Any, Literal, NamedTuple

import psutil

from critiqor.errors import ExitCode
from critiqor.processes import living, marked_processes

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
        self._mark = mark
        """Variables by which every process of the tree can be known."""
        self._cwd = cwd
        self._output = output
        self._terminal = _terminal() if output is None else None
        self._modes: list[Any] | None = None
        """How the terminal was set before the child got it; None while it is not ours to give."""
        self._received: signal.Signals | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._handlers: dict[int, Any] = {}

    def start(self) -> int:
        """Launch the child; returns its pid. Raises OSError when it cannot be launched."""
        self._take_signals()
        self._save_terminal()
        try:
            self._child = subprocess.Popen(
                self._command,
                env=self._environment,
                cwd=self._cwd,
                stdin=subprocess.DEVNULL if self._output else None,
                stdout=self._output,
                stderr=subprocess.STDOUT if self._output else None,
                process_group=0,
                # Both sides set the foreground group, so that neither has to wait for the other.
                preexec_fn=self._take_terminal if self._modes is not None else None,
            )
        except BaseException:
            self.release_signals()
            raise
        self._give_terminal()
        if self._received is not None:
            self._pass_on(self._received, None)
        return self._child.pid

    def wait(self, timeout: float | None = None) -> ChildEnd:
        """Stay until the child has ended, or end its tree after `timeout` seconds.

        Signals go nowhere from then on, until `release_signals`: a second Ctrl-C must not come between the end and
        what is to be written about it.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        status: int | None = None
        try:
            status = self._wait_until(deadline)
            if status is None:
                self.end_tree()
                return ChildEnd("timeout", ExitCode.TIMED_OUT, 0)
            return self._end(status)
        finally:
            # Who was ended by force had no chance to leave the terminal as it was.
            self._return_terminal(restore=status is None or status < 0)

    def end_tree(self, grace: float = GRACE_SECONDS) -> None:
        """End every process of the tree: TERM, then KILL for whatever is left after the grace."""
        for number, seconds in ((signal.SIGTERM, grace), (signal.SIGKILL, grace)):
            processes = self.tree()
            for process in processes:
                with contextlib.suppress(psutil.Error):
                    process.send_signal(number)
            until = time.monotonic() + seconds
            while time.monotonic() < until and (self._running.poll() is None or living(processes)):
                time.sleep(POLL_SECONDS)
            if not self.tree():
                break
        self._running.wait()

    def descendants(self) -> list[psutil.Process]:
        """The child and what descends from it: cheaper than the whole tree, and without what has detached itself."""
        with contextlib.suppress(psutil.Error):
            root = psutil.Process(self._running.pid)
            return [root, *root.children(recursive=True)]
        return []

    def tree(self) -> list[psutil.Process]:
        """The living processes of the tree, the child among them."""
        found = {process.pid: process for process in (*marked_processes(self._mark), *self.descendants())}
        return living(found.values())

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        if self._child is None:
            raise ValueError("the child was not started")
        return self._child

    def _wait_until(self, deadline: float | None) -> int | None:
        child = self._running
        while True:
            pid, status = os.waitpid(child.pid, os.WNOHANG | os.WUNTRACED)
            if pid and os.WIFSTOPPED(status):
                self._stop_with_child(os.WSTOPSIG(status))
            elif pid:
                child.returncode = os.waitstatus_to_exitcode(status)
                return child.returncode
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
        if self._child is not None and self._child.returncode is None:
            self._send(number)

    def _send(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._running.pid, number)

    def _take_signals(self) -> None:
        if not _in_main_thread():
            return
        for number in PASSED_ON:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._handlers[number] = signal.signal(number, self._pass_on)
        # Where it is ignored, the system reaps the child and nobody learns how it ended.
        self._handlers[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, signal.SIG_DFL)

    def release_signals(self) -> None:
        """Let signals do again what they did before the start."""
        while self._handlers:
            signal.signal(*self._handlers.popitem())

    def _stop_with_child(self, number: int) -> None:
        """The child was stopped from the keyboard: stop as well, so that the shell gets its terminal back."""
        if self._terminal is None:
            return
        if number not in (signal.SIGTTIN, signal.SIGTTOU) or not self._is_foreground():
            self._return_terminal()
            # The whole group, because a shell waits for every process of a job; and not SIGSTOP, which would be the
            # end where there is no shell to continue us.
            os.killpg(0, signal.SIGTSTP)
        self._save_terminal()
        self._give_terminal()
        self._send(signal.SIGCONT)

    def _is_foreground(self) -> bool:
        with contextlib.suppress(OSError):
            return self._terminal is not None and os.tcgetpgrp(self._terminal) == os.getpgrp()
        return False

    def _take_terminal(self) -> None:
        _set_foreground(self._terminal, os.getpid())

    def _save_terminal(self) -> None:
        if self._terminal is not None and self._is_foreground():
            self._modes = termios.tcgetattr(self._terminal)

    def _give_terminal(self) -> None:
        if self._modes is not None:
            _set_foreground(self._terminal, self._running.pid)

    def _return_terminal(self, *, restore: bool = False) -> None:
        if self._terminal is None or self._modes is None:
            return
        _set_foreground(self._terminal, os.getpgrp())
        if restore:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(self._terminal, termios.TCSADRAIN, self._modes)
        self._modes = None


def _terminal() -> int | None:
    """The terminal on standard input, if there is one."""
    try:
        descriptor = sys.stdin.fileno()
        return descriptor if os.isatty(descriptor) and _in_main_thread() else None
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
    return threading.current_thread() is threading.main_thread()
