"""Open the dashboard or another link in the user's browser, if there is a display."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from critiqor.cli.output import say
from critiqor.cli.terminal.capabilities import is_interactive

if TYPE_CHECKING:
    from critiqor.dashboard.web.serving import ServedDashboard


def has_display() -> bool:
    """Return whether a browser can be opened: a person is at the terminal of a machine with a display."""
    if not is_interactive():
        return False
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def open_link(link: str) -> None:
    """Open a link in the user's browser; do nothing without a display."""
    if has_display():
        import webbrowser

        webbrowser.open(link)


def open_dashboard(run_id: str, runs_dir: str) -> None:
    """Serve the dashboard, print its link and open it at a run in the browser; for verbs that end by showing a run."""
    from critiqor.dashboard.web.serving import serve
    from critiqor.run.store import RunStore

    def opened(opening: ServedDashboard) -> None:
        say(dashboard_text(opening))
        open_link(opening.link)

    serve(RunStore(runs_dir), opened, run_id=run_id)


def dashboard_text(opening: ServedDashboard) -> str:
    """Return where the dashboard is opened in a browser, and how it is ended."""
    return f"The dashboard is at\n  {opening.link}\nCtrl-C ends it."
