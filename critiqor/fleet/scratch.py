"""Folders for runs that are unpacked for a while: private to the user, and removed at the end.

A process that is killed leaves its folder behind. The next one that makes such a folder removes it: nobody holds its
lock any more.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from critiqor.fleet.errors import FleetUnavailableError
from critiqor.storage.lock import exclusive, is_held
from critiqor.storage.paths import FOLDER_MODE

_LOCK = ".lock"
"""Held while a folder is made; in a runs folder, it is the lock of that folder."""
_HELD = ".held"
"""Held as long as a folder is used."""


@contextmanager
def scratch_folder(prefix: str, base: Path | None = None) -> Iterator[Path]:
    """Make an empty folder, by default below the user's cache folder, and remove it at the end.

    Those with the same prefix that a killed process left behind are removed first. Raise `FleetUnavailableError` if it
    cannot be made.
    """
    base = base or Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "critiqor"
    try:
        base.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
        with exclusive(base / _LOCK):
            for other in base.glob(f"{prefix}*"):
                if not is_held(other / _HELD):
                    shutil.rmtree(other, ignore_errors=True)
            folder = Path(tempfile.mkdtemp(prefix=prefix, dir=base))
            held = exclusive(folder / _HELD)
            held.__enter__()
    except OSError as error:
        message = f"runs cannot be unpacked into {base}: {error.strerror or error}"
        raise FleetUnavailableError(message, fix="make this folder writable, or set XDG_CACHE_HOME") from error
    try:
        yield folder
    finally:
        held.__exit__(None, None, None)
        shutil.rmtree(folder, ignore_errors=True)
