"""A lock on the settings of one OpenClaw, between recordings that use them and `critiqor attach` or `detach`.

OpenClaw does not start, and ends with an error, while another process of it changes its settings; and a gateway that is
being recorded refuses to change them. Recordings share the lock, a change of settings holds it alone.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


class SettingsLock:
    """The lock of the process that made it; the system releases it when that process dies."""

    def __init__(self) -> None:
        self._descriptor: int | None = None

    def share(self, state_folder: Path, *, wait: bool) -> bool:
        """Hold the lock beside others that share it. Return whether it is held; without waiting, it may not be.

        Raise OSError if the folder cannot be locked.
        """
        return self._take(state_folder, fcntl.LOCK_SH | (0 if wait else fcntl.LOCK_NB))

    def take(self, state_folder: Path) -> bool:
        """Hold the lock alone, without waiting. Return whether it is held. Raise OSError as `share` does."""
        return self._take(state_folder, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def release(self) -> None:
        """Release the lock, if it is held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor = None

    def _take(self, state_folder: Path, how: int) -> bool:
        # The folder itself is locked: nothing is added to what the user has, and all commands mean the same one.
        descriptor = os.open(state_folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, how)
        except BlockingIOError:
            os.close(descriptor)
            return False
        except BaseException:
            os.close(descriptor)
            raise
        self.release()
        self._descriptor = descriptor
        return True
