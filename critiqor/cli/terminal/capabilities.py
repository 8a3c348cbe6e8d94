"""What the terminal can show, and whether a person is at it. Nothing here loads rich."""

from __future__ import annotations

import os
import sys
from typing import TextIO


def can_draw(stream: TextIO | None) -> bool:
    """Return whether a stream is a terminal that shows drawings; others get plain text. A closed stream is None."""
    if stream is None or not stream.isatty() or os.environ.get("TERM", "") in ("", "dumb", "unknown"):
        return False
    return (stream.encoding or "").lower().replace("-", "") == "utf8"


def is_interactive() -> bool:
    """Return whether a person is at the terminal: input and output are terminals, and this is not a CI job."""
    return not os.environ.get("CI") and sys.stdin.isatty() and sys.stdout.isatty()
