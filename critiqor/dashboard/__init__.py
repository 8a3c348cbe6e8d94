"""The local web application that shows recorded runs and their diagnoses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from critiqor.run.store import Run


def offline_pages(run: Run) -> Iterator[bytes]:
    """Import the dashboard, which is slow to import, and yield its pages of a run as one HTML file."""
    from critiqor.dashboard.render import offline

    return offline.offline_pages(run)
