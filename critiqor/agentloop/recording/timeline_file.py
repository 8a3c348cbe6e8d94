"""File to which lines are appended in batches, once per iteration of the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path

from critiqor.storage.atomic import FILE_MODE
from critiqor.storage.paths import FOLDER_MODE

BATCH = 1 << 16
"""Size in bytes at which a batch is written at once."""
# Non-blocking, because opening a pipe without a reader would wait for one.
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK


class TimelineFile:
    """Appends whole lines. Lines that cannot be written are dropped."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines: list[bytes] = []
        self._size = 0
        self._descriptor: int | None = None
        self._torn = False
        self._scheduled: asyncio.Handle | None = None
        self.lost = 0
        """Batches that could not be written."""

    def append(self, line: bytes) -> None:
        """Add a line, including its line break."""
        self._lines.append(line)
        self._size += len(line)
        if self._size >= BATCH:
            self.flush()
        elif self._scheduled is None or self._scheduled.cancelled():
            with contextlib.suppress(RuntimeError):  # no event loop: written later or by `close`
                self._scheduled = asyncio.get_running_loop().call_soon(self.flush)

    def flush(self) -> None:
        """Write the pending lines."""
        if self._scheduled is not None:
            self._scheduled.cancel()
            self._scheduled = None
        if not self._lines:
            return
        data = b"".join(self._lines)
        self._lines.clear()
        self._size = 0
        try:
            if self._descriptor is None:
                self._path.parent.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
                self._descriptor = os.open(self._path, _FLAGS, FILE_MODE)
            data = b"\n" + data if self._torn else data
            self._torn = True  # a failed write may still have written some bytes
            self._torn = os.write(self._descriptor, data) < len(data)
        except OSError:
            self._torn = self._torn and self._descriptor is not None
            self.lost += 1

    def close(self) -> None:
        """Write the pending lines and close the file."""
        self.flush()
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = None
