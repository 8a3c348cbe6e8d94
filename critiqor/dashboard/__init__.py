"""The local web application that shows recorded runs and their diagnoses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from critiqor.run.store import Run


def offline_pages(run: Run) -> Iterator[bytes]:
    """Yield the pages of a run as one HTML file. The dashboard is slow to import, so it is imported by this call."""
    from critiqor.dashboard.render import offline

    return offline.offline_pages(run)
