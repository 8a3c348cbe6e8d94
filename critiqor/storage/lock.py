"""Locks between processes: lock files, and the lock of session.json that becomes permanent when a run is sealed."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from critiqor.storage.paths import FOLDER_MODE

SEALED = b"sealed"
"""Content of the lock of session.json once the run is sealed."""
STALE_AFTER_SECONDS = 5.0
"""The recorder holds the lock of session.json only during one rename; a process that holds it longer is dead."""


@contextlib.contextmanager
def exclusive(path: Path, *, timeout: float | None = None) -> Iterator[None]:
    """Hold a lock file; the system releases it when the holding process dies.

    Raise `TimeoutError` if another process holds it for `timeout` seconds; without a timeout, wait for it.
    """
    from filelock import FileLock

    path.parent.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
    with FileLock(path, timeout=-1 if timeout is None else timeout):
        yield


def is_held(path: Path) -> bool:
    """Whether a process holds a lock file at this moment."""
    from filelock import FileLock, Timeout

    if not path.exists():
        return False
    try:
        with FileLock(path, blocking=False):
            return False
    except (Timeout, OSError) as error:
        return isinstance(error, Timeout)


def take_permanent_lock(lock: Path) -> None:
    """Take the lock of session.json for ever: from now on only finalize may write that file."""
    lock.parent.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
    while True:
        try:
            descriptor = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            if _is_sealed_or_taken_over(lock):
                return
            time.sleep(0.01)
            continue
        with os.fdopen(descriptor, "wb") as file:
            file.write(SEALED)
        return


def is_sealed(lock: Path) -> bool:
    """Whether a lock is permanent, as that of session.json after sealing; one that cannot be read does not count."""
    try:
        return lock.read_bytes() == SEALED
    except OSError:
        return False


def _is_sealed_or_taken_over(lock: Path) -> bool:
    try:
        if lock.read_bytes() == SEALED:
            return True
        # A time far in the future means that the clock was set back; such a lock counts as stale as well.
        if abs(time.time() - lock.stat().st_mtime) < STALE_AFTER_SECONDS:
            return False
    except FileNotFoundError:
        return False
    takeover = lock.with_name(lock.name + ".tmp")
    takeover.write_bytes(SEALED)
    takeover.replace(lock)
    return True
