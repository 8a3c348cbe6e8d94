"""Locks between processes."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from critiqor.storage.paths import FOLDER_MODE

SEALED = b"sealed"
STALE_AFTER_SECONDS = 5.0
"""The recorder holds the lock of session.json for the time of one rename; whoever holds it longer is dead."""


@contextlib.contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold a lock file; it is freed by the system when its holder dies."""
    from filelock import FileLock

    path.parent.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
    with FileLock(path):
        yield


def hold_session_document(lock: Path) -> None:
    """Take session.json away from the recorder for good: from here on it can be written by finalize alone."""
    lock.parent.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
    while True:
        try:
            descriptor = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            if _is_ours_or_stale(lock):
                return
            time.sleep(0.01)
            continue
        with os.fdopen(descriptor, "wb") as file:
            file.write(SEALED)
        return


def _is_ours_or_stale(lock: Path) -> bool:
    try:
        if lock.read_bytes() == SEALED:
            return True
        # A time in the future is a clock that was set back, and says nothing about the holder.
        if abs(time.time() - lock.stat().st_mtime) < STALE_AFTER_SECONDS:
            return False
    except FileNotFoundError:
        return False
    takeover = lock.with_name(lock.name + ".tmp")
    takeover.write_bytes(SEALED)
    takeover.replace(lock)
    return True
