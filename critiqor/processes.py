"""Finding processes of this machine: by an environment variable they hold, and whether they are alive."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping

import psutil


def marked_processes(mark: Mapping[str, str]) -> list[psutil.Process]:
    """The living processes whose environment holds these variables, but for this one."""
    return living(process for process in psutil.process_iter() if process.pid != os.getpid() and _holds(process, mark))


def _holds(process: psutil.Process, mark: Mapping[str, str]) -> bool:
    try:
        return process.environ().items() >= mark.items()
    except (psutil.Error, OSError):
        return False


def living(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Those that still run; one that ended and was not waited for yet is none of them."""
    found = []
    for process in processes:
        with contextlib.suppress(psutil.Error):
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found
