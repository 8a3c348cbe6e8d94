"""Supervise a child process and its process tree from start to end.

The child gets its own process group, which becomes the foreground group of the terminal, as in a shell: Ctrl-C reaches
the child and not Critiqor, Ctrl-Z stops both, and a full-screen program can use the terminal as usual. In the
background the terminal is not touched. Signals sent to Critiqor are forwarded, unless it was started with the signal
ignored, as with `nohup`. The tree is found by descent and by environment variables, because processes can detach and
rename themselves; on Linux, Critiqor also becomes the parent of those that lost theirs. A process is identified by its
pid and start time.

Whether Ctrl-C was pressed is known from a process of Critiqor in the child's group, which Ctrl-C ends: the exit code of
the child does not say it, because OpenClaw ends itself with TERM if that takes long.
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
from critiqor.processes import LeftProcess, adopt_orphans, adopts_orphans, left_processes, living, marked_processes
from critiqor.recording.output import OutputCapture

POLL_SECONDS = 0.05
REAP_SECONDS = 5.0
"""How often adopted processes that have ended are removed from the process table."""
GRACE_SECONDS = 8.0
"""Between TERM and KILL. A gateway gives its plugins two seconds and delivers pending messages."""
CTRL_C_SECONDS = 30.0
"""How long a program may take to end after Ctrl-C; if a signal ends it later, Ctrl-C is not the reason."""
FORWARDED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)

EndReason = Literal["exited", "timeout", "limit", "interrupted", "signalled"]


class ChildEnd(NamedTuple):
    """How the child ended."""

    reason: EndReason
    exit_code: int
    """As a shell reports it: 128 plus the signal number for a child that was ended by a signal."""
    left_running: tuple[LeftProcess, ...] = ()
    """Processes of the tree that are still running after the child has ended."""


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
        capture: OutputCapture | None = None,
    ) -> None:
        self._command = list(command)
        self._environment = dict(environment)
        self._mark = mark
        """Environment variables that identify every process of the tree."""
        self._cwd = cwd
        self._output = output
        self._capture = capture
        self._terminal = _terminal() if output is None else None
        self._modes: list[Any] | None = None
        """Terminal attributes before the child got the terminal; None while Critiqor is not in the foreground."""
        self._received: signal.Signals | None = None
        """The signal that Critiqor got. Ctrl-C counts, whatever else follows: a shell may send TERM after it."""
        self._sentinel: subprocess.Popen[bytes] | None = None
        """A process in the child's group that does nothing: if INT has ended it, Ctrl-C was pressed."""
        self._ctrl_c_at: float | None = None
        self._others: frozenset[int] = frozenset()
        """Children of this process from before the start, which somebody else waits for."""
        self._adopted_before: bool | None = None
        """Whether this process adopted orphans before the start; None before the start."""
        self._child: subprocess.Popen[bytes] | None = None
        self._is_stopped = threading.Event()
        """Set to end the tree."""
        self._handlers: dict[int, Any] = {}

    def start(self) -> int:
        """Launch the child and return its pid. Raises OSError if it cannot be launched."""
        self._take_signals()
        self._save_terminal()
        try:
            captured = self._capture.start() if self._capture is not None else None
            self._adopt()
            self._child = subprocess.Popen(
                self._command,
                env=self._environment,
                cwd=self._cwd,
                stdin=subprocess.DEVNULL if self._output else None,
                stdout=captured[0] if captured else self._output,
                stderr=captured[1] if captured else self._output,
                process_group=0,
                # Parent and child both set the foreground group, so that neither has to wait for the other.
                preexec_fn=self._prepare_child if self._modes is not None else None,
            )
        except BaseException:
            self.release()
            raise
        finally:
            if self._capture is not None:
                self._capture.release()
        self._give_terminal()
        self._start_sentinel()
        if self._received is not None:
            self._forward(self._received, None)
        return self._child.pid

    def wait(self, timeout: float | None = None) -> ChildEnd:
        """Wait until the child has ended, or end its tree after `timeout` seconds or a call of `stop`.

        After that, signals have no effect until `release`: a second Ctrl-C must not interrupt the recording
        of the end.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        status: int | None = None
        try:
            status = self._wait_until(deadline)
            if status is None:
                self.end_tree()
                if self._is_stopped.is_set():
                    return ChildEnd("limit", ExitCode.GATE_FAILED)
                return ChildEnd("timeout", ExitCode.TIMED_OUT)
            return self._end(status)
        finally:
            self._end_sentinel()
            # A child that was killed could not restore the terminal.
            self._return_terminal(restore=status is None or status < 0)

    def stop(self) -> None:
        """Let `wait` end the tree, because of a limit. It can be called in any thread."""
        self._is_stopped.set()

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
        self._reap_orphans()

    def descendants(self) -> list[psutil.Process]:
        """Return the child, orphans of its tree and their descendants: faster than `tree`, which reads environments.

        Detached processes are among them only where this process adopts orphans.
        """
        below = []
        with contextlib.suppress(psutil.Error):
            below = psutil.Process().children(recursive=True)
        parents = {process.pid: _parent_of(process) for process in below}
        found = {pid for pid, parent in parents.items() if parent == os.getpid() and self._is_of_child(pid)}
        size = 0
        while size < len(found):
            size = len(found)
            found |= {pid for pid, parent in parents.items() if parent in found}
        return [process for process in below if process.pid in found]

    def _is_of_child(self, pid: int) -> bool:
        """Return whether a child of this process is the launched one, or an orphan of its tree that was adopted."""
        return pid == self._running.pid or self._is_orphan(pid)

    def _is_orphan(self, pid: int) -> bool:
        if self._adopted_before is None or pid in self._others or (self._sentinel and pid == self._sentinel.pid):
            return False
        # What the child starts is never in the group of this process, and what this process starts usually is.
        with contextlib.suppress(OSError):
            return pid != self._running.pid and os.getpgid(pid) != os.getpgrp()
        return False

    def _reap_orphans(self) -> None:
        """Remove adopted processes that have ended from the process table; those of others are left to them."""
        if self._adopted_before is None:
            return
        for process in psutil.Process().children():
            with contextlib.suppress(psutil.Error, ChildProcessError):
                if process.status() == psutil.STATUS_ZOMBIE and self._is_orphan(process.pid):
                    os.waitpid(process.pid, os.WNOHANG)

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
        reap_at = 0.0
        while True:
            now = time.monotonic()
            if now >= reap_at:
                self._reap_orphans()
                reap_at = now + REAP_SECONDS
            self._notice_ctrl_c()
            pid, status = os.waitpid(child.pid, os.WNOHANG | os.WUNTRACED)
            if pid and os.WIFSTOPPED(status):
                self._stop_with_child(os.WSTOPSIG(status))
            elif pid:
                child.returncode = os.waitstatus_to_exitcode(status)
                return child.returncode
            elif self._is_stopped.is_set() or (deadline is not None and now >= deadline):
                return None
            else:
                time.sleep(POLL_SECONDS)

    def _end(self, returncode: int) -> ChildEnd:
        exit_code = 128 - returncode if returncode < 0 else returncode
        if returncode < 0 or self._received is not None:
            # The remaining processes have lost their parent, so nothing else would end them.
            self.end_tree()
            left: tuple[LeftProcess, ...] = ()
        else:
            left = left_processes(self.tree())
        if self._received is signal.SIGINT or exit_code == ExitCode.INTERRUPTED or self._ended_by_ctrl_c(exit_code):
            return ChildEnd("interrupted", ExitCode.INTERRUPTED, left)
        if self._received is not None:
            return ChildEnd("signalled", 128 + self._received, left)
        return ChildEnd("signalled" if returncode < 0 else "exited", exit_code, left)

    def _ended_by_ctrl_c(self, exit_code: int) -> bool:
        """Return whether a signal ended the child soon after Ctrl-C, whichever it was."""
        # It may have had no time to end. If it got Ctrl-C first, another signal does not change how it ends.
        self._end_sentinel()
        self._notice_ctrl_c()
        is_recent = self._ctrl_c_at is not None and time.monotonic() - self._ctrl_c_at < CTRL_C_SECONDS
        return is_recent and exit_code > 128

    def _start_sentinel(self) -> None:
        if self._terminal is None:
            return
        # Without a terminal, Ctrl-C reaches this process. If this process is killed, `cat` reads to its end.
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            self._sentinel = subprocess.Popen(
                ["cat"],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                process_group=self._running.pid,
            )

    def _notice_ctrl_c(self) -> None:
        sentinel = self._sentinel
        if sentinel is not None and self._ctrl_c_at is None and sentinel.poll() == -signal.SIGINT:
            self._ctrl_c_at = time.monotonic()

    def _end_sentinel(self) -> None:
        if self._sentinel is not None:
            self._sentinel.kill()
            self._sentinel.communicate()

    def _forward(self, number: int, frame: FrameType | None) -> None:
        if self._received is not signal.SIGINT:
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

    def _adopt(self) -> None:
        # In a program with several supervisors, each in a thread, the child of one is not an orphan of another.
        if not _in_main_thread():
            return
        with contextlib.suppress(psutil.Error):
            self._others = frozenset(process.pid for process in psutil.Process().children())
            before = adopts_orphans()
            self._adopted_before = before if adopt_orphans(True) else None

    def release(self) -> None:
        """Restore the signal handlers from before the start, and adopt no more orphans."""
        while self._handlers:
            signal.signal(*self._handlers.popitem())
        if self._adopted_before is False:
            adopt_orphans(False)

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

    def _prepare_child(self) -> None:
        """Take the terminal, in the child before it is the program; Ctrl-C at this moment must end it."""
        for number in FORWARDED_SIGNALS:
            if number in self._handlers:
                signal.signal(number, signal.SIG_DFL)
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


def _parent_of(process: psutil.Process) -> int | None:
    with contextlib.suppress(psutil.Error):
        return process.ppid()
    return None


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
