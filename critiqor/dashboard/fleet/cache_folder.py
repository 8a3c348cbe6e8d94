"""The folder that holds opened runs of a store: private to the user, and removed when the dashboard ends.

A dashboard that is killed leaves its folder behind. The next one removes it: nobody holds its lock any more.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path

from critiqor.fleet.errors import FleetUnavailableError
from critiqor.storage.lock import exclusive, is_held
from critiqor.storage.paths import FOLDER_MODE

_LOCK = ".lock"
_PREFIX = "dashboard-"


class CacheFolder:
    """A folder of this process below the user's cache folder."""

    def __init__(self) -> None:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "critiqor"
        self._held = ExitStack()
        try:
            base.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
            with exclusive(base / _LOCK):
                for other in base.glob(f"{_PREFIX}*"):
                    if not is_held(other / _LOCK):
                        shutil.rmtree(other, ignore_errors=True)
                self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
                self._held.enter_context(exclusive(self.path / _LOCK))
        except OSError as error:
            message = f"runs cannot be unpacked into {base}: {error.strerror or error}"
            raise FleetUnavailableError(message, fix="make this folder writable, or set XDG_CACHE_HOME") from error

    def close(self) -> None:
        """Remove the folder."""
        self._held.close()
        shutil.rmtree(self.path, ignore_errors=True)
