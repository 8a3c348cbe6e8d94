"""Opening a link where somebody is there to see it."""

from __future__ import annotations

import os
import sys


def somebody_looks() -> bool:
    """Whether there are a terminal and a display, and no CI."""
    if os.environ.get("CI") or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def open_link(link: str) -> None:
    """Open a link in the user's browser, if there can be one."""
    if somebody_looks():
        import webbrowser

        webbrowser.open(link)
