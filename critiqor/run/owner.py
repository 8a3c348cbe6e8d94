"""The owner of a session: the process that created it, and whether it is still alive."""

from __future__ import annotations

import os
from pathlib import Path

from critiqor.model import Owner, RunHead
from critiqor.storage import SessionPaths


def this_process() -> Owner:
    """Return this process as the owner of a new session."""
    import psutil

    return Owner(pid=os.getpid(), started_at=psutil.Process().create_time())


def is_owner_alive(head: RunHead) -> bool:
    """Return whether the owner of a session still runs: the same pid with the same start time."""
    from critiqor.processes import is_alive

    return head.owner is not None and is_alive(head.owner.pid, head.owner.started_at)


def has_other_owner(head: RunHead) -> bool:
    """Return whether the owner of a session still runs and is not this process: a monitor that will look at it."""
    return head.owner is not None and head.owner.pid != os.getpid() and is_owner_alive(head)


def process_mark(paths: SessionPaths, head: RunHead) -> dict[str, str]:
    """Return the environment variables by which the processes of a run are found if its owner is gone.

    A process cannot be marked again: in every segment it has the mark of the first run of the recording.
    """
    return {"CRITIQOR_RUN_ID": head.recording or head.run_id, "CRITIQOR_RUNS_DIR": str(paths.runs_dir)}


def may_be_running(paths: SessionPaths, head: RunHead) -> bool:
    """Return quickly whether a process of a launched run may be alive; False is certain."""
    if head.owner is None:
        return False
    processes = Path("/proc")
    if not (processes / "self" / "environ").exists() or (processes / str(head.owner.pid)).exists():
        return True
    mark = {f"{name}={value}".encode() for name, value in process_mark(paths, head).items()}
    for environment in processes.glob("[0-9]*/environ"):
        try:
            if mark.issubset(environment.read_bytes().split(b"\0")):
                return True
        except OSError:
            continue  # it has ended, or belongs to another user
    return False


def is_abandoned(head: RunHead) -> bool:
    """Return whether a session was left behind: it is MONITORING, but its owner has ended."""
    return head.status == "MONITORING" and head.owner is not None and not is_owner_alive(head)
