"""The cursor of the terminal, which whatever is drawn anew hides."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

ENDING = (signal.SIGTERM, signal.SIGHUP)
"""Signals that end a process; Ctrl-C is an exception already."""


class EndedError(KeyboardInterrupt):
    """A signal asks to end: whoever cleans up after Ctrl-C does it now as well."""


@contextmanager
def cursor_shown_again() -> Iterator[None]:
    """Around what hides the cursor. A signal that ends the process does so a moment later, when that is undone."""
    received: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:
        received.append(number)
        raise EndedError

    # One that is ignored, as nohup wants it, stays so.
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
