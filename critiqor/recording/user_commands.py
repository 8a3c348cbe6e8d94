"""Watch the process tree of a terminal UI for shell commands that the user runs with `!`.

OpenClaw reports these commands to no plugin. Its terminal UI runs them with OPENCLAW_SHELL=tui-local in their
environment, so they can be seen while they run: a command that ends between two looks is missed, and neither the exit
code nor the output of any of them is visible.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

import psutil

POLL_SECONDS = 0.1
SETTLING_SECONDS = 2.0
"""Age of a process whose environment is final: a new one has that of its parent until it executes its program."""
MAX_COMMANDS = 500
"""Commands of one run that are reported: the run record is rewritten for each."""
TERMINAL_COMMANDS = frozenset({"chat", "terminal", "tui"})
"""Commands of OpenClaw that start its terminal UI."""
_MARK = ("OPENCLAW_SHELL", "tui-local")
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "fish", "ash"})


class UserCommand(NamedTuple):
    """A shell command of the user."""

    command: str
    pid: int
    cwd: str | None


class UserCommandWatch:
    """Looks for commands of the user among the processes of a tree, on a thread, until it is stopped."""

    def __init__(self, tree: Callable[[], Iterable[psutil.Process]], report: Callable[[UserCommand], None]) -> None:
        self._tree = tree
        self._report = report
        self._known: set[tuple[int, float]] = set()
        """Processes that need no further look: pid and start time."""
        self._reported: set[int] = set()
        """Pids of processes that are a command of the user or belong to one."""
        self._count = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Start watching."""
        self._thread.start()

    def stop(self) -> None:
        """Stop watching."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(POLL_SECONDS) and self._count < MAX_COMMANDS:
            self._look()

    def _look(self) -> None:
        processes = list(self._tree())
        self._reported &= {process.pid for process in processes}
        for process in processes:
            with contextlib.suppress(psutil.Error, OSError):
                key = (process.pid, process.create_time())
                if key in self._known:
                    continue
                if time.time() - key[1] > SETTLING_SECONDS:
                    self._known.add(key)
                if process.environ().get(_MARK[0]) == _MARK[1]:
                    self._take(process, key)

    def _take(self, process: psutil.Process, key: tuple[int, float]) -> None:
        if process.ppid() in self._reported:
            self._known.add(key)
            self._reported.add(process.pid)  # a process of a command that is already reported
            return
        command = _command_of(process.cmdline())
        if command is None:
            return  # a helper that starts the shell
        self._known.add(key)
        self._reported.add(process.pid)
        self._count += 1
        cwd = None
        with contextlib.suppress(psutil.Error, OSError):
            cwd = process.cwd()
        self._report(UserCommand(command, process.pid, cwd))


def _command_of(words: list[str]) -> str | None:
    """Return the command that a shell executes; None for a program that is no shell."""
    if len(words) < 3 or os.path.basename(words[0]) not in _SHELLS:  # noqa: PTH119 - a word, not a path of this machine
        return None
    for index, word in enumerate(words[1:], 1):
        if word.startswith("-") and not word.startswith("--") and word.endswith("c"):
            return words[index + 1] if index + 1 < len(words) else None
    return None
