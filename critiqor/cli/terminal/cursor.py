"""Restore the terminal cursor, which live displays hide, even if a signal ends the process."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

ENDING = (signal.SIGTERM, signal.SIGHUP)
"""Signals that end a process without cleanup; Ctrl-C already raises KeyboardInterrupt."""


class EndedError(KeyboardInterrupt):
    """Raised when a signal ends the process.

    Derived from KeyboardInterrupt so that the same cleanup runs as after Ctrl-C.
    """


@contextmanager
def restored_cursor() -> Iterator[None]:
    """Until the block, which hides the cursor, has restored it, delay signals that would end the process."""
    received: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:
        received.append(number)
        raise EndedError

    # An ignored signal, as under nohup, stays ignored.
    replaced = [number for number in ENDING if signal.getsignal(number) is signal.SIG_DFL]
    for number in replaced:
        signal.signal(number, end)
    try:
        with suppress(EndedError):
            yield
    finally:
        for number in replaced:
            signal.signal(number, signal.SIG_DFL)
        if received:
            os.kill(os.getpid(), received[0])
