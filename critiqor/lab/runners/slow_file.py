"""A file that takes its time to be read, as on a disk that wakes up: a pipe, filled a while after it was opened."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path

_POLL_SECONDS = 0.005
_PAUSE_SECONDS = 0.05
"""Until whoever has read it has closed it as well."""


@contextlib.contextmanager
def slow_file(path: Path, content: bytes, seconds: float, quick_reads: int) -> Iterator[None]:
    """Serve `content` under `path` until the end of the block; the first `quick_reads` get it at once."""
    over = threading.Event()
    os.mkfifo(path)

    def serve() -> None:
        reads = 0
        while not over.wait(_POLL_SECONDS):
            try:
                descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
            except OSError as error:
                if error.errno == errno.ENXIO:
                    continue  # nobody reads it now
                return
            reads += 1
            with os.fdopen(descriptor, "wb") as pipe, contextlib.suppress(BrokenPipeError):
                if reads > quick_reads:
                    over.wait(seconds)
                pipe.write(content)
            over.wait(_PAUSE_SECONDS)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
