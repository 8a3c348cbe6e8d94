"""Detect an interactive terminal and a display, and open a link in the browser."""

from __future__ import annotations

import os
import sys


def is_interactive() -> bool:
    """Return whether a person is at the terminal: input and output are terminals, and this is not a CI job."""
    return not os.environ.get("CI") and sys.stdin.isatty() and sys.stdout.isatty()


def has_display() -> bool:
    """Return whether a person is at the terminal of a machine with a display."""
    if not is_interactive():
        return False
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def open_link(link: str) -> None:
    """Open a link in the user's browser; do nothing without a display."""
    if has_display():
        import webbrowser

        webbrowser.open(link)
