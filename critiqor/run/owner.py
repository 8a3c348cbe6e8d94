"""The owner of a session: the process that created it, and whether it is still alive."""

from __future__ import annotations

import os

from critiqor.model import Owner, RunHead


def this_process() -> Owner:
    """Return this process as the owner of a new session."""
    import psutil

    return Owner(pid=os.getpid(), started_at=psutil.Process().create_time())


def is_owner_alive(head: RunHead) -> bool:
    """Return whether the owner of a session still runs: the same pid with the same start time."""
    from critiqor.processes import is_alive

    return head.owner is not None and is_alive(head.owner.pid, head.owner.started_at)


def is_abandoned(head: RunHead) -> bool:
    """Return whether a session was left behind: it is MONITORING, but its owner has ended."""
    return head.status == "MONITORING" and head.owner is not None and not is_owner_alive(head)
