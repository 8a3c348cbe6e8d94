"""Find processes of this machine by their environment variables, check whether they are alive, and adopt orphans."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

_PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 36, 37


class LeftProcess(NamedTuple):
    """A process that outlives the one that started it, directly or not."""

    pid: int
    name: str


def marked_processes(mark: Mapping[str, str]) -> list[psutil.Process]:
    """Return the living processes, except this one, whose environment has these variables."""
    return living(
        process for process in psutil.process_iter() if process.pid != os.getpid() and _has_variables(process, mark)
    )


def _has_variables(process: psutil.Process, mark: Mapping[str, str]) -> bool:
    try:
        return process.environ().items() >= mark.items()
    except (psutil.Error, OSError):
        return False


def agent_processes(folder: Path) -> list[psutil.Process]:
    """Return the running processes whose environment names this folder, or one below it, as their runs folder."""
    found = []
    for process in psutil.process_iter():
        try:
            runs_dir = process.environ().get("CRITIQOR_RUNS_DIR")
        except (psutil.Error, OSError):
            continue
        if runs_dir is not None and Path(runs_dir).is_relative_to(folder):
            found.append(process)
    return found


def living(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Return the processes that are running; zombies are left out."""
    found = []
    for process in processes:
        with contextlib.suppress(psutil.Error):
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def is_alive(pid: int, started_at: float) -> bool:
    """Return whether a process still runs. Pids are reused, so its start time (seconds since 1970) must match."""
    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE and abs(process.create_time() - started_at) < 1.0
    except (psutil.Error, ValueError, OverflowError):
        return False


def left_processes(processes: Sequence[psutil.Process]) -> tuple[LeftProcess, ...]:
    """Return those of the processes that are still there, with their names."""
    found = []
    for process in processes:
        with contextlib.suppress(psutil.Error):
            found.append(LeftProcess(process.pid, process.name()))
    return tuple(found)


def adopts_orphans() -> bool:
    """Return whether this process becomes the parent of descendants whose parent ends, as with `adopt_orphans`."""
    if sys.platform != "linux":
        return False
    import ctypes

    is_set = ctypes.c_int(0)
    return _prctl(_PR_GET_CHILD_SUBREAPER, ctypes.addressof(is_set)) and bool(is_set.value)


def adopt_orphans(is_wanted: bool) -> bool:
    """Make this process the parent of descendants whose parent ends, or not any more. Return whether it worked.

    Only Linux has this. A process that detaches itself with two forks and clears its environment can then be found.
    """
    return sys.platform == "linux" and _prctl(_PR_SET_CHILD_SUBREAPER, int(is_wanted))


def _prctl(option: int, argument: int) -> bool:
    import ctypes

    try:
        prctl = ctypes.CDLL(None, use_errno=True).prctl
    except (OSError, AttributeError):
        return False
    unused = ctypes.c_ulong(0)
    return bool(prctl(option, ctypes.c_ulong(argument), unused, unused, unused) == 0)
