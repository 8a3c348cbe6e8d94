"""Supervise a child process and its process tree from start to end.

The child gets its own process group, which becomes the foreground group of the terminal, as in a shell: Ctrl-C reaches
the child and not Critiqor, Ctrl-Z stops both, and a full-screen program can use the terminal as usual. In the
background the terminal is not touched. Signals sent to Critiqor are forwarded, unless it was started with the signal
ignored, as with `nohup`. The tree is found by descent and by environment variables, because processes can detach and
rename themselves. A process is identified by its pid and start time.
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
"""Between TERM and KILL. A gateway gives its plugins two seconds and delivers pending messages."""
FORWARDED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)

EndReason = Literal["exited", "timeout", "interrupted", "signalled"]


class ChildEnd(NamedTuple):
    """How the child ended."""

    reason: EndReason
    exit_code: int
    """As a shell reports it: 128 plus the signal number for a child that was ended by a signal."""
    left_running: int
    """Number of processes of the tree that are still running after the child has ended."""


class Supervisor:
    """Launches one command and waits until it has ended."""

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
        """Environment variables that identify every process of the tree."""
        self._cwd = cwd
        self._output = output
        self._terminal = _terminal() if output is None else None
        self._modes: list[Any] | None = None
        """Terminal attributes before the child got the terminal; None while Critiqor is not in the foreground."""
        self._received: signal.Signals | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._handlers: dict[int, Any] = {}

    def start(self) -> int:
        """Launch the child and return its pid. Raises OSError if it cannot be launched."""
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
                # Parent and child both set the foreground group, so that neither has to wait for the other.
                preexec_fn=self._take_terminal if self._modes is not None else None,
            )
        except BaseException:
            self.release_signals()
            raise
        self._give_terminal()
        if self._received is not None:
            self._forward(self._received, None)
        return self._child.pid

    def wait(self, timeout: float | None = None) -> ChildEnd:
        """Wait until the child has ended, or end its tree after `timeout` seconds.

        After that, signals have no effect until `release_signals`: a second Ctrl-C must not interrupt the recording
        of the end.
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
            # A child that was killed could not restore the terminal.
            self._return_terminal(restore=status is None or status < 0)

    def end_tree(self, grace: float = GRACE_SECONDS) -> None:
        """End every process of the tree: TERM, then KILL for those left after `grace` seconds."""
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
        """Return the child and its descendants: faster than `tree`, but without detached processes."""
        with contextlib.suppress(psutil.Error):
            root = psutil.Process(self._running.pid)
            return [root, *root.children(recursive=True)]
        return []

    def tree(self) -> list[psutil.Process]:
        """Return the living processes of the tree, including the child."""
        found = {process.pid: process for process in (*marked_processes(self._mark), *self.descendants())}
        return living(found.values())

    def is_of_tree(self, pid: int) -> bool:
        """Return whether a process is one of the tree."""
        if any(process.pid == pid for process in self.descendants()):
            return True
        with contextlib.suppress(psutil.Error, OSError):
            return psutil.Process(pid).environ().items() >= self._mark.items()
        return False

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        if self._child is None:
            raise ValueError("the OpenClaw process was not started")
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
            # The remaining processes have lost their parent, so nothing else would end them.
            self.end_tree()
            left = 0
        else:
            left = len(self.tree())
        if self._received is signal.SIGINT or exit_code == ExitCode.INTERRUPTED:
            return ChildEnd("interrupted", ExitCode.INTERRUPTED, left)
        if self._received is not None:
            return ChildEnd("signalled", 128 + self._received, left)
        return ChildEnd("signalled" if returncode < 0 else "exited", exit_code, left)

    def _forward(self, number: int, frame: FrameType | None) -> None:
        self._received = signal.Signals(number)
        if self._child is not None and self._child.returncode is None:
            self._send(number)

    def _send(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._running.pid, number)

    def _take_signals(self) -> None:
        if not _in_main_thread():
            return
        for number in FORWARDED_SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._handlers[number] = signal.signal(number, self._forward)
        # If it is ignored, the system reaps the child and its exit status is lost.
        self._handlers[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, signal.SIG_DFL)

    def release_signals(self) -> None:
        """Restore the signal handlers from before the start."""
        while self._handlers:
            signal.signal(*self._handlers.popitem())

    def _stop_with_child(self, number: int) -> None:
        """Stop as well when the child was stopped from the keyboard, so that the shell gets its terminal back."""
        if self._terminal is None:
            return
        if number not in (signal.SIGTTIN, signal.SIGTTOU) or not self._is_foreground():
            self._return_terminal()
            # The whole group, because a shell waits for every process of a job. Not SIGSTOP, because without a shell
            # nothing would continue it.
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
    """Return the descriptor of the terminal on standard input, or None."""
    try:
        descriptor = sys.stdin.fileno()
        return descriptor if os.isatty(descriptor) and _in_main_thread() else None
    except (OSError, ValueError, AttributeError):
        return None


def _set_foreground(terminal: int | None, group: int) -> None:
    if terminal is None:
        return
    # A background process that changes the foreground group is stopped by TTOU unless it ignores the signal.
    previous = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        os.tcsetpgrp(terminal, group)
    signal.signal(signal.SIGTTOU, previous)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
