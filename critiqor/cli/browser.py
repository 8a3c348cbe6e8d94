"""Opening a link where somebody is there to see it."""

from __future__ import annotations

import os
import sys


def is_at_a_terminal() -> bool:
    """Whether somebody types, and no CI."""
    return not os.environ.get("CI") and sys.stdin.isatty() and sys.stdout.isatty()


def somebody_looks() -> bool:
    """Whether somebody types at a machine with a display."""
    if not is_at_a_terminal():
        return False
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def open_link(link: str) -> None:
    """Open a link in the user's browser, if there can be one."""
    if somebody_looks():
        import webbrowser

        webbrowser.open(link)
